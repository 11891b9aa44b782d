// Every HTML page that the command line writes, on desktop and phone screens, light and dark.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { pathToFileURL } from 'node:url';
import { parseModel } from '../../dist/index.js';
import { SCREENS, problemsOf } from './accessible.mjs';
import { BUILD, ROOT, launch, openPage } from './browser.mjs';
import { shareOfToday } from '../node/rounds.mjs';

const MODEL = path.join(ROOT, 'demos/models/fashion_mnist.onnx');
const data = (name) => path.join(ROOT, 'demos/data', name);
const CALIBRATION = ['-d', data('calibration-images-idx3-ubyte'), '--max-samples', '16'];
const LABELLED = [
  ...['-d', data('test-images-idx3-ubyte'), '--labels', data('test-labels-idx1-ubyte')],
  ...['--max-samples', '20'],
];

const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-reports-'));
const at = (name) => path.join(folder, name);
let browser;

function requant(...args) {
  return execFileSync(process.execPath, [path.join(ROOT, 'dist/cli/main.js'), ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

before(async () => {
  requant('quantize', MODEL, ...CALIBRATION, '-o', at('int8.onnx'));
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

/**
 * A network with names as long as exporters make them, or longer, with markup in them and without a point to
 * break.
 */
async function makeLongNames() {
  const long = 'the_name_of_a_module_within_a_module_'.repeat(4);
  const weights = Array.from({ length: 64 }, (_, i) => Math.sin(i * i).toFixed(3)).join(', ');
  const model = await parseModel(`graph "long" opset 13
input %x: float32[1, 8]
const %w: float32[8, 8] = {${weights}}
%${long}h = MatMul(%x, %w) "/model/${'layers.0/'.repeat(12)}MatMul"
%${'n'.repeat(120)} = Relu(%${long}h) "<b>${'r'.repeat(100)}"
%${long}out = MatMul(%${'n'.repeat(120)}, %w) "${long}"
output %${long}out
`);
  writeFileSync(at('long.onnx'), model.toOnnx());
  model.dispose();
  const numbers = Float32Array.from({ length: 8 * 8 }, (_, i) => Math.cos(i));
  writeFileSync(at('long.bin'), Buffer.from(numbers.buffer));
  return ['-d', at('long.bin'), '--data-format', 'raw', '--shape', '1,8'];
}

/** The commands whose help lists a page. */
function commandsWithPages() {
  const commands = [...requant('--help').matchAll(/^ {2}(\w+) /gm)].map(([, name]) => name);
  return commands.filter((name) => requant(name, '--help').includes('--html'));
}

test('every page that a command writes keeps the rules on every screen', async (t) => {
  const longData = await makeLongNames();
  requant('quantize', at('long.onnx'), ...longData, '-o', at('long8.onnx'));
  const pages = {
    compare: ['compare', MODEL, at('int8.onnx'), ...LABELLED],
    'compare-without-layers': ['compare', MODEL, at('int8.onnx'), ...CALIBRATION, '--layers', '0'],
    'compare-long-names': ['compare', at('long.onnx'), at('long8.onnx'), ...longData],
    analyze: ['analyze', MODEL, ...CALIBRATION],
    'analyze-budget': ['analyze', MODEL, ...CALIBRATION, '--budget', '30000'],
    'analyze-ms': ['analyze', MODEL, ...CALIBRATION, '--max-ms', '1000'],
    'analyze-metric': ['analyze', MODEL, ...LABELLED, '--metric', 'top1'],
    quantize: [
      ...['quantize', MODEL, ...CALIBRATION, '-o', at('good.onnx'), '--int4', '--floor', 'snr>=26'],
      ...['--formats', 'W8A8,W4A8', '--recoveries', 'default'],
    ],
    'quantize-long-names': [
      ...['quantize', at('long.onnx'), ...longData, '-o', at('good.onnx'), '--floor', 'snr>=50'],
      ...['--formats', 'W8A8', '--recoveries', 'default'],
    ],
    'analyze-long-names': ['analyze', at('long.onnx'), ...longData, '--budget', '100'],
  };
  const covered = new Set(Object.values(pages).map(([command]) => command));
  assert.deepEqual([...covered].sort(), commandsWithPages().sort());
  mkdirSync(BUILD, { recursive: true });
  const { page, problems } = await openPage(browser);
  for (const [name, args] of shareOfToday(Object.entries(pages), 2)) {
    await t.test(name, async () => {
      const file = at(`${name}.html`);
      requant(...args, '--html', file);
      await page.goto(pathToFileURL(file).href);
      for (const { name: screen, viewport, colorScheme } of SCREENS) {
        await page.setViewportSize(viewport);
        await page.emulateMedia({ colorScheme });
        assert.deepEqual(await problemsOf(page), [], screen);
        const picture = path.join(BUILD, `report-${name}-${screen}.png`);
        await page.screenshot({ path: picture, fullPage: true });
      }
    });
  }
  assert.deepEqual(problems, []);
  await page.close();
});

test('tables that are stacked on a phone stay tables for screen readers', async () => {
  const { page } = await openPage(browser, SCREENS[0]);
  const file = at('stacked.html');
  requant('compare', MODEL, at('int8.onnx'), ...CALIBRATION, '--html', file);
  await page.goto(pathToFileURL(file).href);
  const session = await page.context().newCDPSession(page);
  const roles = async ({ viewport }) => {
    await page.setViewportSize(viewport);
    const { nodes } = await session.send('Accessibility.getFullAXTree');
    const wanted = ['table', 'row', 'rowheader', 'columnheader', 'cell'];
    return wanted.map((role) => nodes.filter((node) => node.role?.value === role).length);
  };
  const wide = await roles(SCREENS[0]);
  assert.ok(
    wide.every((count) => count >= 3),
    `${wide}`,
  );
  assert.deepEqual(await roles(SCREENS[2]), wide);
  await page.close();
});

// @huggingface/transformers in Chromium, unmodified: its pipelines give on this engine what they give on the
// onnxruntime-web that it brings.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { makeModels } from '../transformers/make.mjs';
import { FOLDER, MODELS, WEB_SCRIPT, skipTransformers } from '../transformers/package.mjs';
import { FORMS, pipelines, toleranceOf } from '../transformers/pipelines.mjs';
import { ROOT, launch, openPage } from './browser.mjs';
import { serve } from './site.mjs';

const skip = skipTransformers();

const address = (file) => `/${path.relative(ROOT, file).split(path.sep).join('/')}`;
const MODULES = path.join(FOLDER, 'node_modules');
const imports = {
  requant: '/dist/index.js',
  'requant/transformers': '/dist/transformers/index.js',
  '@huggingface/transformers': address(WEB_SCRIPT),
  'onnxruntime-web/webgpu': address(path.join(MODULES, 'onnxruntime-web/dist/ort.webgpu.min.mjs')),
  'onnxruntime-common': address(path.join(MODULES, 'onnxruntime-common/dist/esm/index.js')),
};

/** Lines of the page that choose the engine; the first is all that a program adds for this one. */
const engines = {
  requant: ["import 'requant/transformers';", "const device = 'auto';"],
  theirs: [
    "const device = 'wasm';",
    'transformers.env.backends.onnx.wasm.numThreads = 1;',
    `transformers.env.backends.onnx.wasm.wasmPaths = '${address(path.join(MODULES, 'onnxruntime-web/dist/'))}/';`,
  ],
};

const pageOf = (engine) => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <link rel="icon" href="data:," />
    <script type="importmap">${JSON.stringify({ imports })}</script>
    <script type="module">
      ${engines[engine].filter((line) => line.startsWith('import')).join('\n')}
      import * as transformers from '@huggingface/transformers';
      import { offline, runPipeline } from '/tests/transformers/pipelines.mjs';
      ${engines[engine].filter((line) => !line.startsWith('import')).join('\n')}
      offline(transformers, '${address(MODELS)}/');
      window.run = (task, dtype, rounds) => runPipeline(transformers, task, { dtype, device }, rounds);
      window.ready = true;
    </script>
  </head>
  <body></body>
</html>
`;

let site;
let browser;
const pages = {};

before(async () => {
  if (skip) return;
  makeModels(MODELS, FORMS);
  site = await serve(() => {});
  browser = await launch();
  for (const engine of Object.keys(engines)) {
    const file = path.join(FOLDER, `${engine}.html`);
    writeFileSync(file, pageOf(engine));
    const { page, problems } = await openPage(browser);
    await page.goto(new URL(address(file), site.url).href);
    await page.waitForFunction(() => window.ready);
    pages[engine] = { page, problems };
  }
});

after(async () => {
  await browser?.close();
  await site?.close();
});

for (const form of FORMS) {
  for (const task of Object.keys(pipelines)) {
    test(`${task}, ${form}`, { skip, timeout: 300_000 }, async (t) => {
      const run = ([name, dtype]) => window.run(name, dtype, 0);
      const ours = await pages.requant.page.evaluate(run, [task, form]);
      const theirs = await pages.theirs.page.evaluate(run, [task, form]);
      assert.deepEqual(ours.exact, theirs.exact);
      assert.ok(ours.exact.length > 0, 'the pipeline found nothing');
      const differences = ours.numbers.map((value, at) => Math.abs(value - theirs.numbers[at]));
      const worst = Math.max(0, ...differences);
      assert.equal(ours.numbers.length, theirs.numbers.length);
      assert.ok(worst <= toleranceOf(form), `they differ by ${worst}`);
      t.diagnostic(`largest difference ${worst.toExponential(1)}`);
    });
  }
}

test('pages have no errors', { skip }, () => {
  assert.deepEqual(
    // transformers.js asks for files that a model need not have: it is answered by 404, or gives up reading.
    pages.requant.problems.filter((problem) => !/404|_config\.json net::ERR_ABORTED/.test(problem)),
    [],
  );
});

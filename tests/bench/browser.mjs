// Latency and cold start in Chromium: our package, onnxruntime-web and, if it is installed, LiteRT.js, each
// on a page of its own, bundled by Vite as in a web project.
//
//   node tests/bench/browser.mjs [NETWORK ...] [--rounds N] [--cold N] [--simd auto|relaxed|simd128]
//       [--threads N] [--low w4a4,w2a8,...|all] [--json]
//
// To include LiteRT.js: npm install --prefix build/peers @litertjs/core
//
// Latency is measured as in latency.mjs, also --low; the pages take turns. A cold start (MobileNetV2, the
// same 8-bit QDQ file) uses a new browser with an empty profile, and lasts from the start of the navigation
// until the first result; a server on this machine reports the fetched files. "saved plan": the page fetches
// the bytes of session.toPlan() instead of the model. "second visit": the browser's profile has visited the
// page before, with the plan in the page's cache. --cold 0 skips cold starts.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import { launch, openPage } from '../browser/browser.mjs';
import { chosenForms, chosenNetworks, readArguments } from './arguments.mjs';
import {
  FOLDER,
  LOW_BITS,
  NETWORKS,
  ROOT,
  checkAgreement,
  fileOf,
  formatRatio,
  formatTimes,
  makeNetworks,
  ratios,
  snr,
  spread,
  takeTurns,
} from './networks.mjs';
import { LITERT, buildSite, startServer } from './site.mjs';

const CONTENDERS = {
  float: { engine: 'ours', file: '.onnx' },
  int8: { engine: 'ours', file: '.qoperator.onnx', options: { requantize: 'fixed' } },
  'int8, 7-bit weights': {
    engine: 'ours',
    file: '.w7.qoperator.onnx',
    options: { requantize: 'fixed' },
  },
  'int8, same file': { engine: 'ours', file: '.qdq.onnx' },
  'ort float': { engine: 'ort', file: '.onnx' },
  'ort QDQ': { engine: 'ort', file: '.qdq.onnx' },
  'ort QOperator': { engine: 'ort', file: '.qoperator.onnx' },
  'LiteRT float': { engine: 'litert', file: '.tflite' },
  'LiteRT int8': { engine: 'litert', file: '.int8.tflite' },
};

function makeTflite(names) {
  const python = process.env.REQUANT_PYTHON ?? '/usr/bin/python3';
  const script = path.join(ROOT, 'tests/bench/make_tflite.py');
  for (const name of names) {
    for (const [from, to] of [
      [fileOf(name, 'float'), `${name}.tflite`],
      [fileOf(name, 'qoperator'), `${name}.int8.tflite`],
    ]) {
      const target = path.join(FOLDER, to);
      if (!existsSync(target)) execFileSync(python, [script, from, target], { stdio: 'inherit' });
    }
  }
}

async function openPages(browser, url, engines, { simd, threads }) {
  const pages = {};
  for (const engine of engines) {
    const context = await browser.newContext();
    const { page, problems } = await openPage(context);
    const query = new URLSearchParams({ threads, ...(engine === 'ours' ? { simd } : {}) });
    await page.goto(`${url}/site/${engine}/?${query}`);
    await page.waitForFunction(() => globalThis.bench);
    pages[engine] = { page, problems };
  }
  return pages;
}

async function measure(pages, name, rounds) {
  const rows = [];
  for (const [label, { engine, file, options = {} }] of Object.entries(CONTENDERS)) {
    const page = pages[engine]?.page;
    if (!page) continue;
    const { size } = NETWORKS[name];
    const call = (method, ...args) =>
      page.evaluate(([what, rest]) => globalThis.bench[what](...rest), [method, [label, ...args]]);
    await call('open', `/models/${name}${file}`, size, options);
    rows.push({ label, call, time: (runs) => call('time', runs), times: [] });
  }
  const outputs = {};
  for (const { label, call } of rows) outputs[label] = await call('output');
  checkAgreement(`${name} float`, 'float', outputs['ort float'], outputs.float);
  checkAgreement(`${name} int8`, 'int8', outputs['ort QDQ'], outputs['int8, same file']);
  if (outputs['LiteRT int8']) {
    // The padding of LiteRT's file differs (make_tflite.py), so it is compared with itself.
    const quality = snr(outputs['LiteRT float'], outputs['LiteRT int8']);
    if (!(quality > 10)) throw new Error(`${name}: LiteRT int8 to float ${quality.toFixed(1)} dB`);
  }
  await takeTurns(rows, rounds);
  for (const { call } of rows) await call('close');
  const timesOf = Object.fromEntries(rows.map(({ label, times }) => [label, times]));
  const better = (...labels) =>
    labels
      .filter((label) => timesOf[label])
      .sort((a, b) => spread(timesOf[a]).median - spread(timesOf[b]).median)[0];
  const ortInt8 = better('ort QDQ', 'ort QOperator');
  const compared = {
    'float : ort float': ratios(timesOf['ort float'], timesOf.float),
    'same file : ort int8': ratios(timesOf[ortInt8], timesOf['int8, same file']),
    'int8 : ort int8': ratios(timesOf[ortInt8], timesOf.int8),
    'int8 : float': ratios(timesOf.float, timesOf.int8),
  };
  const ours = better('int8', 'int8, 7-bit weights');
  if (timesOf['LiteRT int8']) {
    compared['float : LiteRT float'] = ratios(timesOf['LiteRT float'], timesOf.float);
    compared['int8 : LiteRT int8'] = ratios(timesOf['LiteRT int8'], timesOf.int8);
    compared[`${ours} : better int8 of peers`] = ratios(
      timesOf[better(ortInt8, 'LiteRT int8')],
      timesOf[ours],
    );
  }
  for (const form of Object.keys(timesOf).filter((label) => label in LOW_BITS)) {
    for (const slower of new Set(['int8', ours, 'float', 'ort float', ortInt8])) {
      compared[`${form} : ${slower}`] = ratios(timesOf[slower], timesOf[form]);
    }
    if (timesOf['LiteRT int8']) {
      compared[`${form} : LiteRT int8`] = ratios(timesOf['LiteRT int8'], timesOf[form]);
    }
  }
  return {
    network: name,
    ortInt8,
    times: Object.fromEntries(rows.map(({ label, times }) => [label, spread(times)])),
    ratios: compared,
  };
}

const brotliSizes = new Map();

function brotliSize(file) {
  if (!brotliSizes.has(file)) {
    const bytes = readFileSync(file);
    const params = {
      [constants.BROTLI_PARAM_QUALITY]: 11,
      [constants.BROTLI_PARAM_LGWIN]: 22,
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    };
    brotliSizes.set(file, brotliCompressSync(bytes, { params }).length);
  }
  return brotliSizes.get(file);
}

async function coldStart({ url, fetched }, engines, repeats, simd) {
  const name = 'mobilenet_v2';
  const files = {
    ours: '.qdq.onnx',
    'saved plan': '.plan',
    'second visit': '.qdq.onnx',
    ort: '.qdq.onnx',
    litert: '.int8.tflite',
  };
  const { InferenceSession, env } = await import('requant');
  env.wasm.simd = simd;
  const session = await InferenceSession.create(fileOf(name, 'qdq'));
  writeFileSync(path.join(FOLDER, `${name}.plan`), session.toPlan());
  session.dispose();
  const samples = Object.fromEntries(engines.map((engine) => [engine, []]));
  const shipped = {};
  const profile = mkdtempSync(path.join(tmpdir(), 'requant-bench-'));
  const visit = async (engine, stay) => {
    const again = engine === 'second visit';
    const site = again || engine === 'saved plan' ? 'ours' : engine;
    const browser = await launch(again ? profile : undefined);
    try {
      const { page } = await openPage(browser);
      await page.goto('about:blank');
      fetched.clear();
      const query = new URLSearchParams({
        cold: `/models/${name}${files[engine]}`,
        size: NETWORKS[name].size,
        ...(site === 'ours' ? { simd } : {}),
        ...(again ? { visits: 1 } : {}),
      });
      const told = page.waitForEvent('console', (message) =>
        message.text().startsWith('cold start'),
      );
      await page.goto(`${url}/site/${site}/?${query}`);
      const times = await (await told).args()[1].jsonValue();
      if (times.error) throw new Error(`${engine}: ${times.error}`);
      // Browsers write their caches later.
      if (stay) await page.waitForTimeout(stay);
      return times;
    } finally {
      await browser.close();
    }
  };
  try {
    for (let before = 0; before < 2; before++) await visit('second visit', 5000);
    for (let repeat = 0; repeat < repeats; repeat++) {
      for (const engine of engines) {
        samples[engine].push(await visit(engine));
        shipped[engine] ??= [...fetched].filter((file) => !file.endsWith('.html'));
      }
    }
  } finally {
    rmSync(profile, { recursive: true, force: true });
  }
  const first = (engine) => samples[engine].map((times) => times.first);
  const own = (engine) => samples[engine].map((times) => times.first - times.script);
  return Object.fromEntries(
    engines.map((engine) => [
      engine,
      {
        first: spread(first(engine)),
        own: spread(own(engine)),
        ...(engine === 'ours'
          ? {}
          : {
              ratio: ratios(own(engine), own('ours')),
              ratioOfFirst: ratios(first(engine), first('ours')),
            }),
        wasm: sizes(shipped[engine].filter((file) => file.endsWith('.wasm'))),
        js: sizes(shipped[engine].filter((file) => !file.endsWith('.wasm'))),
      },
    ]),
  );
}

function sizes(files) {
  const sum = (size) => files.reduce((total, file) => total + size(file), 0);
  return { raw: sum((file) => readFileSync(file).length), brotli: sum(brotliSize) };
}

function printCold(cold, table) {
  const kilobytes = (bytes) => (bytes / 1e3).toFixed(0);
  console.log('\nCold start of MobileNetV2 int8, ms\n');
  const cells = Object.entries(cold).map(
    ([engine, { first, own, ratio, ratioOfFirst, wasm, js }]) => [
      engine,
      formatTimes(own),
      ratio ? formatRatio(ratio) : '',
      formatTimes(first),
      ratioOfFirst ? formatRatio(ratioOfFirst) : '',
      `${kilobytes(wasm.brotli)} + ${kilobytes(js.brotli)}`,
      `${kilobytes(wasm.raw)} + ${kilobytes(js.raw)}`,
    ],
  );
  const header = [
    '',
    'engine, model, session, first run',
    'ours is faster',
    'with browser and page',
    'ours is faster',
    'brotli kB',
    'raw kB',
  ];
  console.log(table(header, cells));
  console.log('\nkB: wasm + JavaScript that the page fetched');
}

async function main() {
  const standards = { rounds: 15, cold: '7', simd: 'auto', threads: 1, low: '', json: false };
  const { rounds, cold, simd, threads, json, names, low } = readArguments(standards, (values) => {
    if (!/^\d+$/.test(values.cold)) throw new Error(`--cold ${values.cold}`);
    return {
      ...values,
      names: chosenNetworks(values.words),
      low: chosenForms(values.low),
      cold: Number(values.cold),
    };
  });
  for (const form of low) {
    const options = { requantize: 'fixed' };
    CONTENDERS[form] = { engine: 'ours', file: `.${form}.onnx`, options };
  }
  await makeNetworks(names, low);
  if (cold > 0) await makeNetworks(['mobilenet_v2']);
  const engines = ['ours', 'ort'];
  if (existsSync(LITERT)) {
    engines.push('litert');
    makeTflite([...new Set([...names, 'mobilenet_v2'])]);
  } else if (!json) {
    console.log('LiteRT.js is not in build/peers and left out');
  }
  const { table } = await import('requant/report');
  await buildSite(engines);
  const site = await startServer();
  const result = { threads, rounds, networks: [] };
  const browser = await launch();
  try {
    result.browser = browser.version();
    if (!json) console.log(`Chromium ${result.browser}, ${rounds} rounds`);
    for (const name of names) {
      // New pages for every network, so that one network cannot affect the next.
      const pages = await openPages(browser, site.url, engines, { simd, threads });
      const measured = await measure(pages, name, rounds);
      for (const { page, problems } of Object.values(pages)) {
        // LiteRT.js reports all messages as errors.
        const real = problems.filter((line) => !/^console: (INFO|WARNING):/.test(line));
        if (real.length > 0) console.error(real.join('\n'));
        await page.context().close();
      }
      result.networks.push(measured);
      if (json) continue;
      console.log(`\n${NETWORKS[name].title}\n`);
      const cells = Object.entries(measured.times).map(([label, of]) => [label, formatTimes(of)]);
      console.log(table(['', 'ms: median [min-max]'], cells));
      const lines = Object.entries(measured.ratios).map(([label, of]) => [label, formatRatio(of)]);
      console.log(`\n${table(['as fast as', 'median [min-max]'], lines)}`);
    }
  } finally {
    await browser.close();
  }
  if (cold > 0) {
    result.cold = await coldStart(site, ['second visit', 'saved plan', ...engines], cold, simd);
    if (!json) printCold(result.cold, table);
  }
  site.server.close();
  if (json) console.log(JSON.stringify(result, null, 2));
}

await main().catch((error) => {
  console.error(`bench: ${error.message}`);
  process.exitCode = 1;
});
process.exit();

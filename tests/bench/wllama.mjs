// A decoder of SmolLM2-135M's shape with random weights of 4 bits, here and in wllama (llama.cpp in wasm), in turns in
// one page of Chromium, one thread each: MatMulNBits with 8-bit activations (accuracy level 4) beside Q4_0, which
// multiplies by 8-bit activations, too.
//
//   node tests/bench/wllama.mjs [--rounds N] [--prompts 64,512] [--tokens N] [--level 4] [--json]
//
// It measures each version of wllama that is installed:
//   npm install --prefix build/peers @wllama/wllama wllama2@npm:@wllama/wllama@2
// A script in ../shared makes the ONNX file; it needs Debian's python3-onnx. Times are of Decoder.append() with the
// greatest logit, of wllama 2's decode(), and what wllama 3 reports (prompt_ms, predicted_ms).

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { launch, openPage } from '../browser/browser.mjs';
import { serve } from '../browser/site.mjs';
import { readArguments } from './arguments.mjs';
import { writeDecoder } from './decoder_gguf.mjs';
import { ROOT, formatRatio, formatTimes, ratios, spread } from './networks.mjs';

const FOLDER = 'build/decoders';
const PEERS = {
  'wllama 3': 'build/peers/node_modules/@wllama/wllama/esm',
  'wllama 2': 'build/peers/node_modules/wllama2/esm',
};
const installed = Object.fromEntries(
  Object.entries(PEERS).filter(([, folder]) => existsSync(path.join(ROOT, folder))),
);

const standards = { rounds: 7, prompts: '64,512', tokens: 192, level: '4', json: false };
const { rounds, prompts, tokens, level, json } = readArguments(standards);

const sizes = prompts.split(',').map(Number);
// wllama 3 takes texts, of which 16 letters are repeated.
if (!sizes.every((size) => size > 0 && size % 16 === 0)) {
  throw new Error(`--prompts ${prompts}: not multiples of 16`);
}

/** Makes the two files; returns their addresses. */
function makeFiles() {
  if (Object.keys(installed).length === 0) {
    throw new Error('no wllama is installed: see the head of this script');
  }
  const folder = path.join(ROOT, FOLDER);
  mkdirSync(folder, { recursive: true });
  const name = `smollm2_level_${level}`;
  if (!existsSync(path.join(folder, `${name}.onnx`))) {
    const script = path.join(ROOT, '../shared/transformers/gen_llm.py');
    execFileSync(
      process.env.REQUANT_PYTHON ?? '/usr/bin/python3',
      [script, 'genai', 'sym', level, '30', name],
      { env: { ...process.env, OUT: folder }, stdio: 'ignore' },
    );
  }
  const gguf = path.join(folder, 'smollm2.gguf');
  if (!existsSync(gguf)) writeDecoder(gguf);
  return { onnx: `/${FOLDER}/${name}.onnx`, gguf: `/${FOLDER}/smollm2.gguf` };
}

/** Runs in the page: loads all; returns the milliseconds of loading. */
async function load({ files, peers }) {
  const bytesOf = async (url) => (await fetch(url)).blob();
  const times = {};
  const timed = async (name, create) => {
    const start = performance.now();
    await create();
    times[name] = performance.now() - start;
  };
  const { InferenceSession, env } = await import('/dist/index.js');
  const { Decoder } = await import('/dist/generate/index.js');
  env.wasm.numThreads = 1;
  const onnx = await bytesOf(files.onnx);
  let session;
  await timed('requant', async () => (session = await InferenceSession.create(onnx)));
  const greatest = (logits) => {
    let best = 0;
    for (let i = 1; i < logits.length; i++) if (logits[i] > logits[best]) best = i;
    return best;
  };
  const idsOf = (count) => Array.from({ length: count }, (_, i) => (i * 7919) % 49152);
  /** Milliseconds of a prompt, and of each token behind it, where step(ids) resolves to the next id. */
  const measure = async (step, prompt, count) => {
    const start = performance.now();
    let next = await step(idsOf(prompt));
    const between = performance.now();
    for (let i = 1; i < count; i++) next = await step([next]);
    return { prompt: between - start, token: (performance.now() - between) / (count - 1) };
  };
  globalThis.contenders = {
    async requant(prompt, count) {
      const decoder = new Decoder(session);
      const result = await measure(
        async (ids) => greatest(await decoder.append(ids)),
        prompt,
        count,
      );
      decoder.dispose();
      return result;
    },
  };

  const gguf = await bytesOf(files.gguf);
  const options = { n_threads: 1, n_ctx: 1024, n_batch: 512, n_gpu_layers: 0 };
  for (const [name, folder] of Object.entries(peers)) {
    const { Wllama } = await import(`/${folder}/index.js`);
    const wasm =
      name === 'wllama 2'
        ? { 'single-thread/wllama.wasm': `/${folder}/single-thread/wllama.wasm` }
        : { default: `/${folder}/wasm/wllama.wasm` };
    const wllama = new Wllama(wasm, { suppressNativeLog: true });
    await timed(name, () => wllama.loadModel([gguf], options));
    if (wllama.isMultithread()) throw new Error(`${name} computes by several threads`);
    globalThis.contenders[name] = async (prompt, count) => {
      if (name === 'wllama 2') {
        await wllama.kvClear();
        const step = async (ids) => {
          await wllama.decode(ids, {});
          return (ids.at(-1) * 31 + 7) % 49152;
        };
        return measure(step, prompt, count);
      }
      const { timings } = await wllama.createCompletion({
        prompt: 'abcdefghijklmnop'.repeat(prompt / 16),
        max_tokens: count,
        temperature: 0,
        cache_prompt: false,
        ignore_eos: true,
      });
      if (timings.prompt_n !== prompt || timings.predicted_n !== count) {
        throw new Error(`${name} did not do its work: ${JSON.stringify(timings)}`);
      }
      return { prompt: timings.prompt_ms, token: timings.predicted_ms / (count - 1) };
    };
  }
  return times;
}

const files = makeFiles();
const site = await serve(() => {});
const browser = await launch();
try {
  const { page, problems } = await openPage(browser);
  await page.goto(`${site.url}tests/bench/page/wllama.html`);
  const loaded = await page.evaluate(load, { files, peers: installed });
  const cases = [
    ...sizes.map((prompt) => ({
      title: `prompt of ${prompt}`,
      prompt,
      count: 2,
      part: 'prompt',
    })),
    { title: `token, past 64 to ${64 + tokens}`, prompt: 64, count: tokens, part: 'token' },
  ];
  const names = ['requant', ...Object.keys(installed)];
  const rows = [];
  for (const { title, prompt, count, part } of cases) {
    const times = Object.fromEntries(names.map((name) => [name, []]));
    for (let round = 0; round <= rounds; round++) {
      for (const name of names) {
        const result = await page.evaluate(
          ([who, ...parameters]) => globalThis.contenders[who](...parameters),
          [name, prompt, count],
        );
        // The first round warms up.
        if (round > 0) times[name].push(result[part]);
      }
    }
    for (const name of names) {
      const ratio = name === 'requant' ? undefined : ratios(times[name], times.requant);
      rows.push({ title, name, ms: spread(times[name]), ratio });
      if (json) continue;
      const cells = [title.padEnd(24), name.padEnd(9), formatTimes(spread(times[name]))];
      if (ratio) cells.push(formatRatio(ratio));
      console.log(cells.join('  '));
    }
  }
  if (json) console.log(JSON.stringify({ loaded, rows }, undefined, 2));
  else console.log('milliseconds of loading:', loaded);
  if (problems.length > 0) console.error(problems.join('\n'));
} finally {
  await browser.close();
  await site.close();
}

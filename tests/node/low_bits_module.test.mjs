// requant-lowbits-*.wasm is fetched for models with weights of few bits, and not for others; and its product
// with 4-bit weights in blocks.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  env,
  loadModel,
  parseModel,
  quantizeWeights,
} from '../../dist/index.js';

const demo = new URL('../../demos/models/fashion_mnist.onnx', import.meta.url);
const missing = Object.fromEntries(
  ['simd128', 'relaxed'].map((variant) => [`requant-lowbits-${variant}.wasm`, '/missing.wasm']),
);
const folder = mkdtempSync(path.join(tmpdir(), 'requant-lowbits-'));
after(() => rmSync(folder, { recursive: true }));

const wave = (length, step) => Float32Array.from({ length }, (_, i) => Math.sin(i * step));
const k = 100;
const n = 21;
const x = new Tensor('float32', wave(5 * k, 0.7), [5, k]);

/** The bytes of a model of one product with weights in blocks, of 4 bits if no others are given. */
async function product(int8Activations, options = { format: 'matmulnbits' }, rows = k) {
  const weights = [...wave(rows * n, 1.3)].map((w) => w.toFixed(4)).join(', ');
  const model = await parseModel(`graph "product" opset 17
input %x: float32["M", ${rows}]
const %w: float32[${rows}, ${n}] = {${weights}}
%y = MatMul(%x, %w)
output %y
`);
  const packed = await quantizeWeights(model, { ...options, int8Activations });
  const bytes = packed.toOnnx();
  packed.dispose();
  model.dispose();
  return bytes;
}

async function run(source, options) {
  const session = await InferenceSession.create(source, options);
  const { y } = await session.run({ x });
  const kernels = session.plan().steps.map((step) => step.kernel);
  const plan = session.toPlan();
  await session.release();
  return { y: [...y.data], kernels, plan };
}

test('is not fetched for other models, and its lack is an error that can be tried again', async () => {
  env.wasm.wasmPaths = missing;
  const image = new Tensor('float32', new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
  const session = await InferenceSession.create(demo);
  assert.equal((await session.run({ image })).logits.data.length, 10);
  await session.release();
  const bytes = await product(true);
  await assert.rejects(InferenceSession.create(bytes), (error) => {
    assert.equal(error.code, 'LOAD_FAILED');
    assert.match(error.message, /missing\.wasm/);
    return true;
  });
  delete env.wasm.wasmPaths;
  const [kernel] = (await run(bytes)).kernels;
  assert.match(kernel, /^matmul_nbits_q8_(vector|dot8)$/); // depends on the processor
});

test('is fetched for weights in blocks of every form', async () => {
  const args = process.execArgv.filter((arg) => arg.startsWith('--experimental-wasm'));
  const script = `
    import { InferenceSession, Tensor } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url))};
    const session = await InferenceSession.create(process.argv[1]);
    await session.run({ x: new Tensor('float32', new Float32Array(96), [1, 96]) });
    console.log(session.plan().steps.map(({ kernel }) => kernel).join());`;
  args.push('--input-type=module', '--eval', script);
  for (const format of ['qdq', 'matmulnbits']) {
    for (const bits of [2, 3, 4, 8]) {
      const file = path.join(folder, `${format}${bits}.onnx`);
      writeFileSync(file, await product(false, { format, bits }, 96));
      const kernels = execFileSync(process.execPath, [...args, file], { encoding: 'utf8' });
      assert.match(kernels, /matmul_nbits_f32_vector/, `${format}, ${bits} bits`);
    }
  }
});

test('floats by floats are exact, eight bits add less than the four bits did', async () => {
  const exact = await run(await product(false));
  assert.deepEqual(exact.kernels, ['matmul_nbits_f32_vector']);
  const model = await loadModel(await product(false));
  const reference = await run(model, { kernels: { matmul_nbits: 'matmul_nbits_f32_scalar' } });
  model.dispose();
  const rounded = await run(await product(true));
  const largest = Math.max(...reference.y.map(Math.abs));
  for (const [at, value] of reference.y.entries()) {
    const row = Math.floor(at / n);
    assert.ok(Math.abs(exact.y[at] - value) <= 1e-5 * largest, `${at}: ${exact.y[at]}, ${value}`);
    // Half a step of 1 / 127 for each of k values, times weights of at most 1.
    const bound = (k / 2 / 127) * Math.max(...x.data.slice(row * k, row * k + k));
    assert.ok(Math.abs(rounded.y[at] - value) <= bound, `${at}: ${rounded.y[at]}, ${value}`);
  }
});

test('integers are the same bits for every variant, kernel and number of threads', async () => {
  const bytes = await product(true);
  const { y } = await run(bytes);
  const scalar = { kernels: { matmul_nbits: 'matmul_nbits_q8_scalar' } };
  assert.deepEqual((await run(bytes, scalar)).y, y);
  assert.deepEqual((await run(bytes, { numThreads: 2 })).y, y);
  env.wasm.simd = 'simd128';
  assert.deepEqual((await run(bytes)).y, y);
  env.wasm.simd = 'auto';
});

test('a saved plan brings it along alone, or leaves nothing behind', async () => {
  const { y, plan } = await run(await product(true));
  const file = path.join(folder, 'product.plan');
  writeFileSync(file, plan);
  const script = `
    import { InferenceSession, Tensor, engineInfo, env } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url))};
    const { liveBytes } = await engineInfo();
    env.wasm.wasmPaths = ${JSON.stringify(missing)};
    const refused = InferenceSession.create(${JSON.stringify(file)});
    const code = await refused.then(() => 'none', (error) => error.code);
    const left = (await engineInfo()).liveBytes - liveBytes;
    env.wasm.wasmPaths = { 'requant-operators.wasm': '/missing.wasm', 'requant-tools.wasm': '/missing.wasm' };
    const session = await InferenceSession.create(${JSON.stringify(file)});
    const x = new Tensor('float32', Float32Array.from({ length: ${5 * k} }, (_, i) => Math.sin(i * 0.7)), [5, ${k}]);
    const { y } = await session.run({ x });
    const other = await InferenceSession.create(${JSON.stringify(demo)});
    const image = new Tensor('float32', new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
    const { logits } = await other.run({ image });
    console.log(JSON.stringify({ code, left, y: [...y.data], logits: logits.data.length }));`;
  const args = process.execArgv.filter((arg) => arg.startsWith('--experimental-wasm'));
  args.push('--input-type=module', '--eval', script);
  const text = execFileSync(process.execPath, args, { encoding: 'utf8' });
  assert.deepEqual(JSON.parse(text), { code: 'LOAD_FAILED', left: 0, y, logits: 10 });
});

// requant-operators.wasm and requant-tools.wasm are fetched when they are needed, not before.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  compare,
  env,
  loadModel,
  parseModel,
  quantize,
} from '../../dist/index.js';

const demo = new URL('../../demos/models/fashion_mnist.onnx', import.meta.url);
const dist = new URL('../../dist/', import.meta.url);

const text = `graph "rare" opset 13
input %x: float32[1, 4, 2, 2]
%y = DepthToSpace(%x) {blocksize = 2}
output %y
`;

const missing = {
  'requant-operators.wasm': '/missing.wasm',
  'requant-tools.wasm': '/missing.wasm',
};

test('models run with the core alone; what needs more says so and can be tried again', async () => {
  env.wasm.wasmPaths = missing;
  const feeds = { image: new Tensor('float32', new Float32Array(784).fill(0.5), [1, 1, 28, 28]) };
  const model = await loadModel(demo);
  const session = await InferenceSession.create(model);
  const { logits } = await session.run(feeds);
  assert.equal(logits.data.length, 10);
  const plan = await InferenceSession.create(session.toPlan());
  assert.deepEqual((await plan.run(feeds)).logits.data, logits.data);

  const needing = [
    () => quantize(model, { calibration: [feeds] }),
    () => compare(model, model, { dataset: [{ feeds }] }),
    () => parseModel(text),
  ];
  // If only one of the files is available, the other is missing.
  for (const paths of [
    missing,
    ...Object.keys(missing).map((file) => ({ [file]: '/missing.wasm' })),
  ]) {
    env.wasm.wasmPaths = paths;
    for (const action of needing) {
      await assert.rejects(action, (error) => {
        assert.equal(error.code, 'LOAD_FAILED');
        assert.match(error.message, /missing\.wasm/);
        return true;
      });
    }
  }

  env.wasm.operatorsBinary = readFileSync(new URL('requant-operators.wasm', dist));
  env.wasm.toolsBinary = readFileSync(new URL('requant-tools.wasm', dist));
  const [quantized, report] = await Promise.all([
    quantize(model, { calibration: [feeds] }),
    compare(model, model, { dataset: [{ feeds }] }),
  ]);
  assert.equal(quantized.integerModel.info.quantized, true);
  assert.equal(report.top1.agreement, 1);
  await session.release();
  await plan.release();
  quantized.dispose();
  model.dispose();
});

const PACKAGE = JSON.stringify(new URL('../../dist/index.js', import.meta.url));

/** The JSON that a script prints in another process, which has loaded only the core. */
function elsewhere(script) {
  const args = [...process.execArgv.filter((arg) => arg.startsWith('--experimental-wasm'))];
  args.push('--input-type=module', '--eval', script);
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' }));
}

const NO_TOOLS = JSON.stringify({ 'requant-tools.wasm': '/missing.wasm' });
const NEITHER = JSON.stringify(missing);

/**
 * Runs the model or plan in another process: at first without the operators' module, and never with the
 * tools.
 */
function runElsewhere(file) {
  return elsewhere(`
    import { InferenceSession, Tensor, env } from ${PACKAGE};
    env.wasm.wasmPaths = ${NEITHER};
    const create = () => InferenceSession.create(${JSON.stringify(file)});
    const code = await create().then(() => 'none', (error) => error.code);
    env.wasm.wasmPaths = ${NO_TOOLS};
    const session = await create();
    const x = new Tensor('float32', Float32Array.from({ length: 16 }, (_, i) => i), [1, 4, 2, 2]);
    const { y } = await session.run({ x });
    console.log(JSON.stringify({ code, values: [...y.data] }));`);
}

test('a model or plan with an extended operator loads the operators, and no tools', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'requant-tools-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const rare = await parseModel(text);
  const session = await InferenceSession.create(rare);
  writeFileSync(path.join(folder, 'rare.onnx'), rare.toOnnx());
  writeFileSync(path.join(folder, 'rare.plan'), session.toPlan());
  await session.release();
  rare.dispose();
  const plain = await parseModel(text.replace(/DepthToSpace.*/, 'Relu(%x)'));
  const scalar = await plain.toPlan({ kernels: { unary_f32: 'clamp_f32_scalar' } });
  writeFileSync(path.join(folder, 'scalar.plan'), scalar);
  plain.dispose();
  const values = [0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15];
  for (const file of ['rare.onnx', 'rare.plan']) {
    assert.deepEqual(runElsewhere(path.join(folder, file)), { code: 'LOAD_FAILED', values }, file);
  }
  values.sort((a, b) => a - b);
  const expected = { code: 'LOAD_FAILED', values };
  assert.deepEqual(runElsewhere(path.join(folder, 'scalar.plan')), expected);
});

test('a session whose shapes depend on data gives its memory back without either', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'requant-tools-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const model = await parseModel(`graph "dependent" opset 13
    input %x: float32[8]
    input %n: int64[1]
    const %zero: int64[1] = {0}
    %y = Slice(%x, %zero, %n)
    output %y`);
  const file = path.join(folder, 'dependent.onnx');
  writeFileSync(file, model.toOnnx());
  model.dispose();
  const held = elsewhere(`
    import { InferenceSession, Tensor, engineInfo, env } from ${PACKAGE};
    env.wasm.wasmPaths = ${NEITHER};
    const { liveBytes } = await engineInfo();
    const session = await InferenceSession.create(${JSON.stringify(file)});
    const x = new Tensor('float32', Float32Array.of(0, 1, 0, 2, 3, 0, 0, 4), [8]);
    const n = new Tensor('int64', BigInt64Array.of(5n), [1]);
    const { y } = await session.run({ x, n });
    await session.release();
    const after = (await engineInfo()).liveBytes;
    console.log(JSON.stringify({ values: [...y.data].map(Number), left: after - liveBytes }));`);
  assert.deepEqual(held, { values: [0, 1, 0, 2, 3], left: 0 });
});

test('layers that write floats have kernels without either', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'requant-tools-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const model = await parseModel(`graph "sums" opset 13
    input %x: float32[1, 1, 4, 4]
    const %w: float32[2, 1, 1, 1] = {0.5, -0.75}
    const %u: float32[2, 2, 1, 1] = {1, 2, -3, 0.25}
    const %m: float32[32, 3] = {${Array.from({ length: 96 }, (_, i) => (i % 7) - 3).join(', ')}}
    %a = Conv(%x, %w)
    %b = Conv(%a, %u)
    %c = Add(%a, %b)
    %d = Relu(%c)
    %e = Flatten(%d)
    %y = MatMul(%e, %m)
    output %y`);
  const x = Float32Array.from({ length: 16 }, (_, i) => i / 16);
  const feeds = { x: new Tensor('float32', x, [1, 1, 4, 4]) };
  const convolutions = { floatOutput: true };
  const config = {
    floatOutputs: true,
    recover: [],
    operatorTypes: { Conv: convolutions, Add: null },
  };
  const quantized = await quantize(model, { calibration: [feeds], config });
  const session = await InferenceSession.create(quantized);
  const expected = [...(await session.run(feeds)).y.data];
  for (const format of ['qdq', 'qoperator']) {
    const file = path.join(folder, `${format}.onnx`);
    writeFileSync(file, quantized.toOnnx({ format }));
    const ran = elsewhere(`
      import { InferenceSession, Tensor, env } from ${PACKAGE};
      env.wasm.wasmPaths = ${NEITHER};
      const session = await InferenceSession.create(${JSON.stringify(file)}, { profile: true });
      const x = Float32Array.from({ length: 16 }, (_, i) => i / 16);
      const { y } = await session.run({ x: new Tensor('float32', x, [1, 1, 4, 4]) });
      const steps = session.profile().map(({ op, kernel }) => op + ': ' + kernel);
      console.log(JSON.stringify({ values: [...y.data], steps }));`);
    assert.deepEqual(ran.values, expected, format);
    const said = ran.steps.join('\n');
    assert.doesNotMatch(said, /reference/);
    assert.match(said, /^ConvInteger\+Cast\+Mul(\+Add)*\+Relu: conv_q8/m);
    assert.match(said, /^MatMulInteger\+Cast\+Mul: conv_q8/m);
  }
  await session.release();
  quantized.dispose();
  model.dispose();
});

test('extended operators, and older forms of pairs, run without the tools', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'requant-operators-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const texts = {
    product: ['[2, 3, 4]', '%t = Transpose(%x) {perm = [0, 2, 1]}\n%y = MatMul(%x, %t)'],
    volume: ['[1, 1, 4, 4, 4]', '%y = MaxPool(%x) {kernel_shape = [2, 2, 2]}'],
    several: ['[1, 8, 2, 2]', '%y = Celu(%x)'],
    normalization: [
      '[1, 2, 3]',
      'const %s: float32[2] = {1, 2}\nconst %b: float32[2] = {0, 1}\n' +
        '%y = InstanceNormalization(%x, %s, %b)',
      17,
    ],
    pairs: [
      '[2, 3]',
      'const %s: float32[] = {0.5}\nconst %z: int8[] = {1}\n%q = QuantizeLinear(%x, %s, %z)\n' +
        '%d = DequantizeLinear(%q, %s, %z)\n%r = Relu(%d)\n%e = QuantizeLinear(%r, %s, %z)\n' +
        '%y = DequantizeLinear(%e, %s, %z)',
      10,
    ],
  };
  for (const [name, [dims, nodes, opset = 13]] of Object.entries(texts)) {
    const model = await parseModel(
      `graph "${name}" opset ${opset}\ninput %x: float32${dims}\n${nodes}\noutput %y\n`,
    );
    const file = path.join(folder, `${name}.onnx`);
    writeFileSync(file, model.toOnnx());
    const shape = JSON.parse(dims);
    const length = shape.reduce((a, b) => a * b);
    const x = new Tensor(
      'float32',
      Float32Array.from({ length }, (_, i) => i - 5),
      shape,
    );
    const session = await InferenceSession.create(model);
    const { y } = await session.run({ x });
    const kernels = session.plan().steps.map(({ kernel }) => kernel);
    await session.release();
    model.dispose();
    const ran = elsewhere(`
      import { InferenceSession, Tensor, env } from ${PACKAGE};
      env.wasm.wasmPaths = ${NEITHER};
      const create = () => InferenceSession.create(${JSON.stringify(file)});
      const code = await create().then(() => 'none', (error) => error.code);
      env.wasm.wasmPaths = ${NO_TOOLS};
      const session = await create();
      const data = Float32Array.from({ length: ${length} }, (_, i) => i - 5);
      const { y } = await session.run({ x: new Tensor('float32', data, [${shape}]) });
      const kernels = session.plan().steps.map(({ kernel }) => kernel);
      console.log(JSON.stringify({ code, values: [...y.data], kernels }));`);
    assert.deepEqual(ran, { code: 'LOAD_FAILED', values: [...y.data], kernels }, name);
  }
});

test('what is loaded at the same time waits for the same modules', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'requant-operators-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const rare = await parseModel(text);
  const file = path.join(folder, 'rare.onnx');
  writeFileSync(file, rare.toOnnx());
  rare.dispose();
  const script = (order) => `
    import { InferenceSession, Tensor, env, loadModel, quantize } from ${PACKAGE};
    const loaded = [];
    const { instantiate } = WebAssembly;
    WebAssembly.instantiate = (module, imports) => {
      const names = Object.keys(imports);
      if (names.includes('shared')) loaded.push(Object.keys(imports.operators).length > 0 ? 'tools' : 'operators');
      return instantiate(module, imports);
    };
    const image = new Tensor('float32', new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
    const model = await loadModel(${JSON.stringify(demo)});
    const before = loaded.length;
    const tasks = {
      rare: () => InferenceSession.create(${JSON.stringify(file)}),
      quantize: () => quantize(model, { calibration: [{ image }] }),
    };
    await Promise.all([...${JSON.stringify(order)}, ...${JSON.stringify(order)}].map((task) => tasks[task]()));
    console.log(JSON.stringify({ before, loaded }));`;
  const expected = { before: 0, loaded: ['operators', 'tools'] };
  assert.deepEqual(elsewhere(script(['rare', 'quantize'])), expected);
  assert.deepEqual(elsewhere(script(['quantize', 'rare'])), expected);
});

test('threads have operators and tools of their own', async () => {
  const model = await loadModel(demo, { numThreads: 2 });
  const image = new Tensor('float32', new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
  const quantized = await quantize(model, { calibration: [{ image }] });
  const session = await InferenceSession.create(quantized);
  assert.equal((await session.run({ image })).logits.data.length, 10);
  await session.release();
  quantized.dispose();
  model.dispose();
});

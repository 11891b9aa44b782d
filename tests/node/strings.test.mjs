// Tensors of strings at the boundary of a model: feeds, results, sequences, Workers and refusals.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as ort from 'onnxruntime-web';
import {
  InferenceSession,
  Tensor,
  compare,
  createWorker,
  interpret,
  packSequence,
  parseModel,
  quantize,
  unpackSequence,
} from '../../dist/index.js';
import { list } from './ort_cases.mjs';
import { float } from './ort_quantized.mjs';
import { isError } from './support.mjs';
import { textOf, ours } from './string_cases.mjs';

describe('strings at the boundary', () => {
  const identity = 'graph "" opset 17\ninput %x: string[?]\n%y = Identity(%x)\noutput %y';

  test('tensors of strings are made and checked', () => {
    const tensor = new Tensor('string', ['a', 'b'], [1, 2]);
    assert.equal(tensor.type, 'string');
    assert.deepEqual(tensor.data, ['a', 'b']);
    assert.deepEqual(tensor.reshape([2, -1]).dims, [2, 1]);
    assert.equal(new Tensor(['a']).type, 'string');
    assert.equal(new Tensor('string', [], [0]).size, 0);
    for (const bad of [['a', 1], Array(2), new Uint8Array(1), 'a', null]) {
      assert.throws(() => new Tensor('string', bad), isError('TYPE_MISMATCH'));
    }
    assert.throws(() => new Tensor('float32', ['a']), isError('INVALID_ARGUMENT'));
    assert.throws(() => new Tensor('string', ['a'], [2]), isError('SHAPE_MISMATCH'));
    assert.throws(() => tensor.toFloat32(), isError('TYPE_MISMATCH'));
    const items = [
      tensor,
      new Tensor('string', ['', 'é😀', '\ufeff']),
      new Tensor('string', [], [0]),
    ];
    unpackSequence(packSequence(items)).forEach((item, i) => assert.deepEqual(item, items[i]));
    const packed = packSequence(items).data;
    for (let end = 0; end < packed.length; end += 8) {
      const cut = new Tensor('uint8', packed.slice(0, end), [end]);
      assert.throws(() => unpackSequence(cut), isError('INVALID_ARGUMENT'));
    }
  });

  test('feeds and results', async () => {
    const model = await parseModel(identity);
    const session = await InferenceSession.create(model);
    assert.equal(session.inputMetadata[0].type, 'string');
    const data = ['', 'a\0b', '\ufeffé', '😀', 'x'.repeat(10000), 'a'];
    const { y } = await session.run({ x: new Tensor('string', data) });
    assert.deepEqual(y.data, data);
    const foreign = await session.run({ x: new ort.Tensor('string', data, [data.length]) });
    assert.deepEqual(foreign.y.data, data);
    // Half of a pair is no character.
    const half = await session.run({ x: new Tensor('string', ['\ud83d!']) });
    assert.deepEqual(half.y.data, ['\ufffd!']);
    const target = new Tensor('string', ['', '']);
    const filled = await session.run({ x: new Tensor('string', ['p', 'q']) }, { y: target });
    assert.equal(filled.y, target);
    assert.deepEqual(target.data, ['p', 'q']);
    await assert.rejects(
      session.run({ x: new Tensor('float32', [1]) }),
      isError('TYPE_MISMATCH', { value: 'x', message: /takes string/ }),
    );
    assert.throws(
      () => session.bind({ x: new Tensor('string', ['a']) }),
      isError('UNSUPPORTED', { value: 'x' }),
    );
    assert.throws(() => session.toPlan(), isError('UNSUPPORTED', { message: /strings/ }));
    const interpreted = await interpret(model, { x: new Tensor('string', data) });
    assert.deepEqual(interpreted.y.data, data);
    await session.release();
    model.dispose();
  });

  test('models of numbers take no strings', async () => {
    const model = await parseModel(
      'graph "" opset 17\ninput %x: float32[?]\n%y = Relu(%x)\noutput %y',
    );
    const session = await InferenceSession.create(model);
    await assert.rejects(
      session.run({ x: new Tensor('string', ['a']) }),
      isError('TYPE_MISMATCH', { value: 'x', message: /not string/ }),
    );
    await session.release();
    model.dispose();
  });

  test('a Worker takes and gives them', async () => {
    const model = await parseModel(identity);
    const worker = await createWorker();
    const session = await worker.createSession(model.toOnnx());
    const { y } = await session.run({ x: new Tensor('string', ['é', '', '😀']) });
    assert.deepEqual(y.data, ['é', '', '😀']);
    await session.release();
    await worker.terminate();
    model.dispose();
  });

  test('runs leave no strings behind', async () => {
    const model = await parseModel(identity);
    const session = await InferenceSession.create(model);
    const { core } = model.handle;
    const run = async (round) => {
      const data = list(100, (i) => `${'long text '.repeat(100)}${round} ${i}`);
      const { y } = await session.run({ x: new Tensor('string', data) });
      assert.deepEqual(y.data, data);
    };
    for (let round = 0; round < 4; round++) await run(round);
    const before = core.liveBytes();
    for (let round = 4; round < 24; round++) await run(round);
    assert.ok(core.liveBytes() - before < 50_000, `${core.liveBytes() - before} bytes more`);
    await session.release();
    model.dispose();
  });

  test('text and files hold them', async () => {
    const body = ['const %c: string[3] = {"a\\"b", "é😀", ""}', '%y = Concat(%x, %c) {axis = 0}'];
    const x = { type: 'string', dims: [1], data: ['x'] };
    const model = await parseModel(textOf(17, { x }, body, ['y']));
    const again = await parseModel(model.toText());
    const { y } = await ours(again.toOnnx(), { x });
    assert.deepEqual(y.data, ['x', 'a"b', 'é😀', '']);
    model.dispose();
    again.dispose();
  });

  test('quantization leaves strings alone', async () => {
    const weights = list(12, (i) => ((i * 7) % 12) / 6 - 1);
    const model = await parseModel(
      [
        'graph "" opset 17, ai.onnx.ml 4',
        'input %x: float32[2, 4]',
        `const %w: float32[4, 3] = {${weights.map(float).join(', ')}}`,
        '%z = MatMul(%x, %w)',
        '%i = ArgMax(%z) {axis = 1, keepdims = 0}',
        '%label = ai.onnx.ml::LabelEncoder(%i) {keys_int64s = [0, 1, 2], values_strings = ["a", "é", ""]}',
        'output %label',
        'output %z',
      ].join('\n'),
    );
    const calibration = list(8, (round) => ({
      x: new Tensor(
        'float32',
        list(8, (i) => Math.sin(round * 8 + i)),
        [2, 4],
      ),
    }));
    const quantized = await quantize(model, { calibration });
    const session = await InferenceSession.create(quantized);
    const { label, z } = await session.run(calibration[0]);
    assert.equal(label.type, 'string');
    label.data.forEach((text, row) => {
      const scores = [...z.data.subarray(3 * row, 3 * row + 3)];
      assert.equal(text, ['a', 'é', ''][scores.indexOf(Math.max(...scores))]);
    });
    await session.release();
    const { outputs } = await compare(model, quantized, {
      dataset: calibration.map((feeds) => ({ feeds })),
    });
    assert.equal(outputs[0].name, 'label');
    quantized.dispose();
    const reader = await parseModel(identity);
    await assert.rejects(
      quantize(reader, { calibration: [{ x: new Tensor(['a']) }] }),
      isError('UNSUPPORTED', { value: 'x', message: /strings/ }),
    );
    reader.dispose();
    model.dispose();
  });

  test('what has no form here is refused with a remedy', async () => {
    const model = await parseModel(
      'graph "" opset 20\ninput %x: string[?]\n%y = RegexFullMatch(%x) {pattern = "a.c"}\noutput %y',
    );
    await assert.rejects(
      InferenceSession.create(model),
      isError('UNSUPPORTED', { message: /RegexFullMatch/, hint: /RegExp/ }),
    );
    model.dispose();
  });
});

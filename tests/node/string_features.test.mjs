// Operators of ai.onnx.ml on strings against ONNX Runtime, and ZipMap's maps.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as ort from 'onnxruntime-web';
import { packSequence, parseModel, unpackMaps, unpackSequence } from '../../dist/index.js';
import { cases, list } from './ort_cases.mjs';
import { float } from './ort_quantized.mjs';
import { isError } from './support.mjs';
import { words, numbers, texts, textOf, feedsFor, ours, same } from './string_cases.mjs';

const row = (count, make) => `[${list(count, make).join(', ')}]`;

describe('ai.onnx.ml with strings', () => {
  cases('LabelEncoder', async (pick, random, round) => {
    const known = [...new Set(words(random, 4)), 'x'];
    const count = known.length;
    const [keys, data] = [
      [
        `keys_strings = ${texts(known)}`,
        { type: 'string', dims: [5], data: list(5, () => [...known, '?'][pick(0, count)]) },
      ],
      [
        `keys_int64s = ${row(count, (i) => i)}`,
        numbers(
          'int64',
          [5],
          list(5, () => BigInt(pick(0, count))),
        ),
      ],
      [
        `keys_floats = ${row(count, (i) => float(i + 0.5))}`,
        numbers(
          'float32',
          [5],
          list(5, () => pick(0, count) + 0.5),
        ),
      ],
    ][round % 3];
    const values = [
      `values_strings = ${texts(words(random, count))}${random() < 0.5 ? ', default_string = "none"' : ''}`,
      `values_int64s = ${row(count, (i) => i * 3)}${random() < 0.5 ? ', default_int64 = 7' : ''}`,
      `values_floats = ${row(count, (i) => float(i * 1.5))}${random() < 0.5 ? ', default_float = 7.5' : ''}`,
    ][Math.floor(round / 3) % 3];
    // ONNX Runtime has no kernel from floats to floats, nor between integers before version 4.
    if (!keys.includes('string') && !values.includes('string')) return;
    await same({ x: data }, [`%y = ai.onnx.ml::LabelEncoder(%x) {${keys}, ${values}}`]);
  });

  cases('CategoryMapper and OneHotEncoder', async (pick, random, round) => {
    const known = [...new Set(words(random, 4)), 'x'];
    const x = {
      type: 'string',
      dims: [4],
      data: list(4, () => [...known, '?'][pick(0, known.length)]),
    };
    const n = numbers(
      'int64',
      [4],
      list(4, () => BigInt(pick(0, 6))),
    );
    const lists = `cats_strings = ${texts(known)}, cats_int64s = ${row(known.length, (i) => i)}`;
    const line = [
      [{ x }, `%y = ai.onnx.ml::CategoryMapper(%x) {${lists}, default_int64 = 9}`],
      [{ x: n }, `%y = ai.onnx.ml::CategoryMapper(%x) {${lists}, default_string = "none"}`],
      [{ x }, `%y = ai.onnx.ml::OneHotEncoder(%x) {cats_strings = ${texts(known)}}`],
    ][round % 3];
    await same(line[0], [line[1]]);
  });

  test('LabelEncoder of version 1', async () => {
    const body = [
      '%y = ai.onnx.ml::LabelEncoder(%x) {classes_strings = ["a", "ü"], default_int64 = -7}',
    ];
    const run = async (x) => {
      const model = await parseModel(textOf(17, { x }, body, ['y']).replace('ml 4', 'ml 1'));
      const { y } = await ours(model.toOnnx(), { x });
      model.dispose();
      return [...y.data];
    };
    assert.deepEqual(await run({ type: 'string', dims: [3], data: ['ü', 'a', 'b'] }), [
      1n,
      0n,
      -7n,
    ]);
    assert.deepEqual(await run(numbers('int64', [3], [1n, 0n, 5n])), ['ü', 'a', '_Unused']);
  });

  const features = (random, rows, columns) =>
    numbers(
      'float32',
      [rows, columns],
      list(rows * columns, () => Math.fround(random() * 4 - 2)),
    );

  cases('classifiers', async (pick, random, round) => {
    const columns = pick(1, 3);
    // With two classes that both have sums, ONNX Runtime's trees and its linear machine heed the second one only.
    const classes = round % 4 >= 2 ? pick(3, 4) : pick(2, 4);
    const x = features(random, pick(1, 4), columns);
    const labels = texts(list(classes, (i) => `class ${i} ё`));
    const some = (count) => row(count, () => float(random() * 2 - 1));
    const ids = (count) => row(count, (i) => i);
    const line = [
      `LinearClassifier(%x) {classlabels_strings = ${labels}, coefficients = ${some(classes * columns)}, intercepts = ${some(classes)}, post_transform = "SOFTMAX"}`,
      `LinearClassifier(%x) {classlabels_strings = ["no", "yes"], coefficients = ${some(columns)}, intercepts = ${some(1)}, post_transform = "LOGISTIC"}`,
      `SVMClassifier(%x) {classlabels_strings = ${labels}, coefficients = ${some(classes * columns)}, rho = ${some(1)}, kernel_params = [0.0, 0.0, 3.0], kernel_type = "LINEAR"}`,
      `TreeEnsembleClassifier(%x) {classlabels_strings = ${labels}, class_ids = ${ids(classes)}, class_nodeids = ${row(classes, (i) => 1 + (i % 2))}, class_treeids = ${row(classes, () => 0)}, class_weights = ${row(classes, () => float(random()))}, nodes_featureids = [0, 0, 0], nodes_falsenodeids = [2, 0, 0], nodes_truenodeids = [1, 0, 0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_nodeids = [0, 1, 2], nodes_treeids = [0, 0, 0], nodes_values = ${some(3)}, post_transform = "NONE"}`,
    ][round % 4];
    await same({ x }, [`%y, %s = ai.onnx.ml::${line}`], ['y', 's']);
  });

  test('a classifier of scikit-learn gives maps', async () => {
    for (const [attribute, labels] of [
      ['strings', ['cat', 'Ж', '😀']],
      ['int64s', [3n, 0n, 5n]],
    ]) {
      const ints = attribute === 'int64s';
      const list = ints ? `[${labels.join(', ')}]` : texts(labels);
      const body = [
        `%label, %scores = ai.onnx.ml::LinearClassifier(%x) {classlabels_${ints ? 'ints' : attribute} = ${list}, coefficients = [0.5, -1.0, 0.25], intercepts = [0.0, 0.5, -0.5], post_transform = "SOFTMAX"}`,
        `%maps = ai.onnx.ml::ZipMap(%scores) {classlabels_${attribute} = ${list}}`,
      ];
      const x = numbers('float32', [2, 1], [1.5, -0.75]);
      const model = await parseModel(textOf(17, { x }, body, ['label', 'scores', 'maps']));
      const bytes = model.toOnnx();
      const { label, scores, maps } = await ours(bytes, { x });
      const read = unpackMaps(maps);
      assert.equal(read.length, 2);
      read.forEach((map, row) => {
        assert.deepEqual([...map.keys()], labels);
        assert.deepEqual([...map.values()], [...scores.data.subarray(3 * row, 3 * row + 3)]);
        const best = [...map].reduce((a, b) => (b[1] > a[1] ? b : a));
        assert.equal(best[0], label.data[row]);
      });
      assert.deepEqual([...unpackSequence(maps)[0].data], labels);
      // ONNX Runtime takes the file that was written, and finds the same labels.
      const session = await ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] });
      const theirs = await session.run(feedsFor({ x }, ort.Tensor), ['label', 'scores']);
      await session.release();
      assert.deepEqual([...theirs.label.data], [...label.data]);
      model.dispose();
    }
    assert.throws(() => unpackMaps(packSequence([])), isError('INVALID_ARGUMENT'));
  });
});

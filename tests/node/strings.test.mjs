// Tensors of strings and maps: inside a model against ONNX Runtime, and at its boundary.

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
  unpackMaps,
  unpackSequence,
} from '../../dist/index.js';
import { cases, list } from './ort_cases.mjs';
import { float } from './ort_quantized.mjs';
import { isError } from './support.mjs';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'fatal';

// One to four bytes each, white space and a byte order mark. ONNX Runtime ends strings at a zero.
const LETTERS = ['a', 'B', ' ', 'é', 'Ж', 'ж', '中', '😀', '\ufeff', '7', 'ö', 'Ö', '"'];
const word = (random, most = 4, letters = LETTERS) =>
  list(
    Math.floor(random() * (most + 1)),
    () => letters[Math.floor(random() * letters.length)],
  ).join('');
/** Words of which some are equal. */
const words = (random, count, letters) => {
  const few = list(5, () => word(random, 4, letters));
  return list(count, () => few[Math.floor(random() * 5)]);
};
const size = (dims) => dims.reduce((a, b) => a * b, 1);
const strings = (dims, random) => ({ type: 'string', dims, data: words(random, size(dims)) });
const numbers = (type, dims, data) => ({ type, dims, data });
const quoted = (text) =>
  `"${[...text].map((c) => (c === '\0' ? '\\x00' : /["\\]/.test(c) ? `\\${c}` : c)).join('')}"`;
const texts = (values) => `[${values.map(quoted).join(', ')}]`;
const constant = (name, { type, dims, data }) =>
  `const %${name}: ${type}[${dims.join(', ')}] = {${data.map((v) => (type === 'string' ? quoted(v) : v)).join(', ')}}`;
const int64 = (name, values) => constant(name, numbers('int64', [values.length], values));

const textOf = (opset, inputs, body, outputs) =>
  [
    `graph "strings" opset ${opset}, ai.onnx.ml 4`,
    ...Object.entries(inputs).map(
      ([name, { type, dims }]) => `input %${name}: ${type}[${dims.map(() => '?').join(', ')}]`,
    ),
    ...body,
    ...outputs.map((name) => `output %${name}`),
  ].join('\n');

const feedsFor = (inputs, Class) =>
  Object.fromEntries(
    Object.entries(inputs).map(([name, { type, dims, data }]) => [
      name,
      new Class(type, data, dims),
    ]),
  );

async function ours(bytes, inputs, options) {
  const session = await InferenceSession.create(bytes, options);
  try {
    return await session.run(feedsFor(inputs, Tensor));
  } finally {
    await session.release();
  }
}

/** Compares all outputs with those of ONNX Runtime. */
async function same(inputs, body, outputs = ['y'], opset = 17) {
  const model = await parseModel(textOf(opset, inputs, body, outputs));
  const bytes = model.toOnnx();
  model.dispose();
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] });
  const wanted = await session.run(feedsFor(inputs, ort.Tensor));
  await session.release();
  for (const optimize of [true, false]) {
    const got = await ours(bytes, inputs, { optimize });
    for (const name of outputs) {
      const what = `${body.join('\n')}\n${JSON.stringify(inputs, (_, v) => (typeof v === 'bigint' ? Number(v) : v))}: ${name}`;
      assert.equal(got[name].type, wanted[name].type, what);
      assert.deepEqual([...got[name].dims], [...wanted[name].dims], what);
      if (got[name].type.startsWith('float')) {
        wanted[name].data.forEach((want, i) => {
          const near = Math.abs(got[name].data[i] - want) <= 1e-5 * Math.max(1, Math.abs(want));
          assert.ok(near || Object.is(got[name].data[i], want), `${what}[${i}]`);
        });
      } else {
        assert.deepEqual([...got[name].data], [...wanted[name].data], what);
      }
    }
  }
}

describe('strings are moved', () => {
  cases('shapes and selections', async (pick, random, round) => {
    const dims = [pick(1, 3), pick(1, 4)];
    const x = strings(dims, random);
    const lines = [
      ['%y = Identity(%x)'],
      [int64('s', [-1]), '%y = Reshape(%x, %s)'],
      ['%y = Flatten(%x) {axis = 0}'],
      [int64('a', [0]), '%u = Unsqueeze(%x, %a)', '%y = Squeeze(%u, %a)'],
      ['%y = Transpose(%x) {perm = [1, 0]}'],
      ['%y = Concat(%x, %x) {axis = 1}'],
      // ONNX Runtime copies one string of each slice, so that a slice has one here.
      [int64('i', [dims[1] - 1, -1, 0]), '%y = Gather(%x, %i) {axis = 1}'],
      [int64('f', [1]), int64('t', [-1]), int64('a', [1]), '%y = Slice(%x, %f, %t, %a)'],
      [int64('p', [1, dims[1] - 1]), '%z, %y = Split(%x, %p) {axis = 1}'],
      [int64('s', [2, ...dims]), '%y = Expand(%x, %s)'],
      [int64('r', [2, 1]), '%y = Tile(%x, %r)'],
      ['%y = Shape(%x)'],
      ['%y = Size(%x)'],
    ];
    await same({ x }, lines[round % lines.length]);
  });

  cases('comparisons and choices', async (pick, random) => {
    const dims = [pick(1, 3), pick(1, 3)];
    const row = words(random, dims[1]);
    const x = strings(dims, random);
    if (random() < 0.7)
      x.data = x.data.map((text, i) => (random() < 0.5 ? row[i % dims[1]] : text));
    await same(
      { x },
      [
        constant('row', { type: 'string', dims: [dims[1]], data: row }),
        '%y = Equal(%x, %row)',
        '%z = Where(%y, %x, %row)',
      ],
      ['y', 'z'],
      19,
    );
  });

  cases('constants', async (pick, random, round) => {
    const data = words(random, pick(0, 4));
    const x = { type: 'string', dims: [data.length], data };
    const lines = [
      [constant('c', x), '%y = Concat(%x, %c) {axis = 0}'],
      [
        `%c = Constant() {value_strings = ${texts([...data, 'é'])}}`,
        '%y = Concat(%x, %c) {axis = 0}',
      ],
      [
        `%c = Constant() {value_string = ${quoted(word(random))}}`,
        int64('s', [1]),
        '%d = Reshape(%c, %s)',
        '%y = Concat(%x, %d) {axis = 0}',
      ],
    ];
    await same({ x }, lines[round % lines.length]);
  });

  test('bodies and sequences', async () => {
    const x = { type: 'string', dims: [3], data: ['a', '', 'Ж'] };
    for (const c of [0, 1]) {
      await same(
        { x, c: numbers('bool', [], [c]) },
        [
          '%y = If(%c, %x, %x) {then_branch = { graph "" opset 17',
          'capture %x: string[N]',
          '%o = Concat(%x, %x) {axis = 0}',
          'output %o',
          '}, else_branch = { graph "" opset 17',
          'capture %x: string[N]',
          '%o = Identity(%x)',
          'output %o',
          '}}',
          '%s = SequenceConstruct(%x, %y)',
          'const %at: int64[] = {1}',
          '%z = SequenceAt(%s, %at)',
          '%all = ConcatFromSequence(%s) {axis = 0}',
        ],
        ['y', 'z', 'all'],
      );
    }
  });
});

describe('strings are read and made', () => {
  cases('Cast to strings', async (pick, random, round) => {
    const type = ['float32', 'float64', 'int64', 'int32', 'uint8', 'bool'][round % 6];
    const whole = () => Math.floor(random() * 200);
    const data = list(6, () => {
      if (type === 'bool') return pick(0, 1);
      if (type === 'int64') return BigInt(whole()) ** 4n - 9n;
      if (!type.startsWith('float')) return whole();
      const value = [NaN, -0, Infinity, (random() - 0.5) * 10 ** pick(-40, 30), whole()][
        pick(0, 4)
      ];
      return type === 'float32' ? Math.fround(value) : value;
    });
    const x = numbers(type, [6], data);
    if (!type.startsWith('float')) return same({ x }, ['%y = Cast(%x) {to = 8}']);
    // ONNX Runtime gives up to eight digits, ONNX's data as many as restore the number.
    const model = await parseModel(textOf(17, { x }, ['%y = Cast(%x) {to = 8}'], ['y']));
    const { y } = await ours(model.toOnnx(), { x });
    model.dispose();
    y.data.forEach((text, i) => {
      if (!Number.isFinite(data[i]))
        return assert.equal(text, Number.isNaN(data[i]) ? 'NaN' : 'INF');
      assert.ok(Object.is(type === 'float32' ? Math.fround(text) : Number(text), data[i]), text);
      const short = Number(data[i].toPrecision(type === 'float32' ? 8 : 17));
      assert.ok(text.length <= `${short}`.length + 4, text);
    });
  });

  test('floats have the form that they have in ONNX Runtime', async () => {
    const values = [0.1, 1e10, 16777216, 1e7, 100, -0.5, 1e-10, 3.4e38, -0].map(Math.fround);
    await same({ x: numbers('float32', [9], values) }, ['%y = Cast(%x) {to = 8}']);
  });

  cases('Cast of strings', async (pick, random, round) => {
    const [to, real] = [
      [1, true],
      [11, true],
      [7, false],
      [6, false],
      [9, false],
      [10, true],
    ][round % 6];
    const data = list(5, () => {
      const text = String(real ? (random() - 0.5) * 10 ** pick(-6, 6) : pick(-1000, 1000));
      return [text, ` ${text}`, real ? ['inf', '-INF', 'NaN'][pick(0, 2)] : `${text}.7`][
        pick(0, 2)
      ];
    });
    await same({ x: { type: 'string', dims: [5], data } }, [
      `%n = Cast(%x) {to = ${to}}`,
      `%y = Cast(%n) {to = ${to === 10 ? 1 : to}}`,
    ]);
  });

  test('numbers in strings that are none are refused', async () => {
    const model = await parseModel(
      'graph "" opset 17\ninput %x: string[N]\n%y = Cast(%x) {to = 6}\noutput %y',
    );
    const session = await InferenceSession.create(model);
    for (const bad of ['', '3abc', '1e3', '0x10', '4294967296']) {
      await assert.rejects(
        session.run({ x: new Tensor('string', [bad]) }),
        isError('INVALID_ARGUMENT', { message: /Cast of the string/ }),
      );
    }
    const { y } = await session.run({ x: new Tensor('string', ['-5']) });
    assert.deepEqual([...y.data], [-5]);
    await session.release();
    model.dispose();
  });

  cases('StringNormalizer', async (pick, random, round) => {
    // JavaScript and ONNX Runtime agree on letters with one counterpart.
    const letters = ['a', 'A', 'é', 'É', 'Ж', 'ж', '中', '😀', 'ö'];
    const data = words(random, pick(1, 6), letters);
    const dims = round % 2 ? [1, data.length] : [data.length];
    const action = ['NONE', 'LOWER', 'UPPER'][round % 3];
    const stop =
      random() < 0.7 ? `, stopwords = ${texts(words(random, 2, letters).concat(data[0]))}` : '';
    const shape = round % 2 ? 'string[1, ?]' : 'string[?]';
    const line = `%y = StringNormalizer(%x) {case_change_action = "${action}", is_case_sensitive = ${pick(0, 1)}${stop}}`;
    const model = await parseModel(
      ['graph "" opset 17', `input %x: ${shape}`, line, 'output %y'].join('\n'),
    );
    const session = await ort.InferenceSession.create(model.toOnnx());
    const { y: want } = await session.run({ x: new ort.Tensor('string', data, dims) });
    await session.release();
    const { y } = await ours(model.toOnnx(), { x: { type: 'string', dims, data } });
    assert.deepEqual([...y.data], [...want.data], `${line} ${data}`);
    assert.deepEqual([...y.dims], [...want.dims]);
    model.dispose();
  });

  cases('StringConcat and StringSplit', async (pick, random, round) => {
    const dims = [pick(1, 3), pick(1, 3)];
    const x = strings(dims, random);
    if (round % 2) {
      await same({ x, w: strings([dims[1]], random) }, ['%y = StringConcat(%x, %w)'], ['y'], 20);
      return;
    }
    // ONNX Runtime takes no other white space than spaces for it.
    x.data = list(size(dims), () => word(random, 9, ['a', 'b', ' ', ',', 'é']));
    const options = [
      random() < 0.7 ? [`delimiter = ${quoted(['', ',', ' ', 'ab', 'é'][pick(0, 4)])}`] : [],
      random() < 0.5 ? [`maxsplit = ${pick(1, 3)}`] : [],
    ].flat();
    const given = options.length ? ` {${options.join(', ')}}` : '';
    await same({ x }, [`%y, %n = StringSplit(%x)${given}`], ['y', 'n'], 20);
  });

  test('StringSplit splits at all white space, as ONNX says', async () => {
    const model = await parseModel(
      'graph "" opset 20\ninput %x: string[N]\n%y, %n = StringSplit(%x)\noutput %y\noutput %n',
    );
    const { y, n } = await ours(model.toOnnx(), {
      x: { type: 'string', dims: [2], data: [' a\tb\n', ''] },
    });
    assert.deepEqual([...y.data], ['a', 'b', '', '']);
    assert.deepEqual([...n.data], [2n, 0n]);
    model.dispose();
  });

  cases('TfIdfVectorizer', async (pick, random, round) => {
    const pool = list(4, (i) => `w${i}é`);
    const data = list(pick(2, 6), () => pool[pick(0, 3)]);
    await same({ x: { type: 'string', dims: [data.length], data } }, [
      `%y = TfIdfVectorizer(%x) {mode = "${['TF', 'IDF', 'TFIDF'][round % 3]}", min_gram_length = 1, max_gram_length = 2, max_skip_count = ${pick(0, 1)}, ngram_counts = [0, 2], ngram_indexes = [0, 1, 2], weights = [0.5, 2.0, 3.0], pool_strings = ${texts([pool[0], pool[1], pool[2], pool[pick(0, 3)]])}}`,
    ]);
  });
});

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
    // Of two classes with sums of their own ONNX Runtime's trees heed the second one only.
    const classes = round % 4 === 3 ? pick(3, 4) : pick(2, 4);
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

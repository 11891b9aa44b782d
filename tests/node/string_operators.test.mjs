// Operators of ONNX on strings against ONNX Runtime.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';
import { cases, list } from './ort_cases.mjs';
import { isError } from './support.mjs';
import {
  word,
  words,
  size,
  strings,
  numbers,
  quoted,
  texts,
  constant,
  int64,
  textOf,
  ours,
  same,
} from './string_cases.mjs';

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

  test('StringSplit trims the part behind the last cut', async () => {
    const x = { type: 'string', dims: [2], data: [' a  b c ', 'a '] };
    await same({ x }, ['%y, %n = StringSplit(%x) {maxsplit = 1}'], ['y', 'n'], 20);
  });

  cases('TfIdfVectorizer', async (pick, random, round) => {
    const pool = list(4, (i) => `w${i}é`);
    const data = list(pick(2, 6), () => pool[pick(0, 3)]);
    await same({ x: { type: 'string', dims: [data.length], data } }, [
      `%y = TfIdfVectorizer(%x) {mode = "${['TF', 'IDF', 'TFIDF'][round % 3]}", min_gram_length = 1, max_gram_length = 2, max_skip_count = ${pick(0, 1)}, ngram_counts = [0, 2], ngram_indexes = [0, 1, 2], weights = [0.5, 2.0, 3.0], pool_strings = ${texts([pool[0], pool[1], pool[2], pool[pick(0, 3)]])}}`,
    ]);
  });
});

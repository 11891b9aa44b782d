// Sequences inside a model, as detection networks have them, against ONNX Runtime, and at its boundary.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  packSequence,
  parseModel,
  unpackSequence,
} from '../../dist/index.js';
import { both, cases, shaped } from './ort_cases.mjs';
import { constant } from './ort_quantized.mjs';
import { isError } from './support.mjs';

describe('sequences', () => {
  cases('a sequence that a loop fills', async (pick) => {
    const [rows, trips] = [pick(1, 3), pick(1, 4)];
    await both(
      17,
      { x: shaped('float32', [rows, 2]) },
      [
        constant('trips', 'int64', [], [trips]),
        constant('go', 'bool', [], [1]),
        '%none = SequenceEmpty() {dtype = 1}',
        '%all = Loop(%trips, %go, %none, %x) {body = { graph "" opset 17',
        'input %i: int64[]',
        'input %c: bool[]',
        'input %s: undefined[...]',
        'capture %x: float32[A, 2]',
        '%float = Cast(%i) {to = 1}',
        '%item = Add(%x, %float)',
        '%more = SequenceInsert(%s, %item)',
        '%on = Identity(%c)',
        'output %on',
        'output %more',
        '}}',
        '%length = SequenceLength(%all)',
        constant('last', 'int64', [], [-1]),
        '%end = SequenceAt(%all, %last)',
        `%y = ConcatFromSequence(%all) {axis = ${pick(-2, 1)}}`,
        '%stack = ConcatFromSequence(%all) {axis = 1, new_axis = 1}',
      ],
      ['y', 'length', 'end', 'stack'],
    );
  });

  cases('parts of a tensor', async (pick, random, round) => {
    const rows = pick(2, 6);
    const one = ['', ', %two', ', %parts'][round % 3];
    // ONNX Runtime heeds keepdims beside lengths, where it has no meaning.
    const [axis, keeps] = [pick(-2, 1), one ? 1 : pick(0, 1)];
    await both(
      17,
      { x: shaped('float32', axis % 2 === 0 ? [rows, 3] : [3, rows]) },
      [
        constant('two', 'int64', [], [2]),
        constant('parts', 'int64', [2], [1, rows - 1]),
        `%s = SplitToSequence(%x${one}) {axis = ${axis}, keepdims = ${keeps}}`,
        constant('at', 'int64', [], [-2]),
        '%n = SequenceLength(%s)',
        ...(rows > 2 || round % 3 !== 1 ? ['%y = SequenceAt(%s, %at)'] : ['%y = Identity(%x)']),
        '%first = SequenceErase(%s)',
        '%m = SequenceLength(%first)',
      ],
      ['y', 'n', 'm'],
    );
  });

  test('sequences pack and unpack', () => {
    const items = [
      new Tensor('float32', [1, 2, 3], [3]),
      new Tensor('int64', [5n], []),
      new Tensor('bool', [true], [1, 1]),
      new Tensor('uint8', [], [0, 4]),
    ];
    const unpacked = unpackSequence(packSequence([...items, packSequence(items)]));
    assert.equal(unpacked.length, 5);
    for (const list of [unpacked, unpackSequence(unpacked[4])]) {
      items.forEach((item, i) => assert.deepEqual(list[i], item));
    }
    assert.deepEqual(unpackSequence(packSequence([])), []);
    for (const bad of [5, [5], 'text']) {
      assert.throws(() => packSequence(bad), isError('INVALID_ARGUMENT'));
      assert.throws(() => unpackSequence(bad), isError('INVALID_ARGUMENT'));
    }
    const whole = packSequence(items).data;
    for (let end = 0; end < whole.length; end += 8) {
      const cut = new Tensor('uint8', whole.slice(0, end), [end]);
      assert.throws(() => unpackSequence(cut), isError('INVALID_ARGUMENT'));
    }
  });

  test('what cannot be is refused', async () => {
    const run = async (...lines) => {
      const model = await parseModel(
        ['graph "" opset 17', 'input %x: float32[2]', ...lines].join('\n'),
      );
      const session = await InferenceSession.create(model);
      return session.run({ x: new Tensor('float32', [1, 2], [2]) });
    };
    await assert.rejects(
      run(
        'const %i: int64[] = {3}',
        '%s = SequenceConstruct(%x)',
        '%y = SequenceAt(%s, %i)',
        'output %y',
      ),
      isError('INVALID_ARGUMENT', { message: /position 3/ }),
    );
    await assert.rejects(
      run('%y = SequenceLength(%x)', 'output %y'),
      isError('TYPE_MISMATCH', { message: /no sequence/ }),
    );
    await assert.rejects(
      run('%s = SequenceEmpty()', '%y = ConcatFromSequence(%s) {axis = 0}', 'output %y'),
      isError('INVALID_ARGUMENT', { message: /empty/ }),
    );
  });
});

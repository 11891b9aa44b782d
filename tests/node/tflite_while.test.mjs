// WHILE of TFLite files, whose results follow from its definition.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InferenceSession, Tensor } from '../../dist/index.js';
import { writeTflite } from '../tflite/writer.mjs';

test('WHILE runs its body until its condition fails', async () => {
  const one = (type, data) => ({ type, shape: [1], data });
  const scalar = (name) => ({ name, shape: [1], type: 'int32' });
  const vector = (name) => ({ name, shape: [3], type: 'float32' });
  const bytes = writeTflite(
    {
      tensors: [scalar('i'), vector('x'), scalar('last'), vector('y')],
      inputs: [0, 1],
      outputs: [3, 2],
      nodes: [{ op: 'WHILE', inputs: [0, 1], outputs: [2, 3], options: { condition: 1, body: 2 } }],
    },
    {
      tensors: [
        scalar('i'),
        vector('x'),
        { name: 'limit', ...one('int32', new Int32Array([5])) },
        { name: 'less', shape: [1], type: 'bool' },
      ],
      inputs: [0, 1],
      outputs: [3],
      nodes: [{ op: 'LESS', inputs: [0, 2], outputs: [3] }],
    },
    {
      tensors: [
        scalar('i'),
        vector('x'),
        { name: 'step', ...one('int32', new Int32Array([1])) },
        scalar('next'),
        vector('double'),
      ],
      inputs: [0, 1],
      outputs: [3, 4],
      nodes: [
        { op: 'ADD', inputs: [0, 2], outputs: [3] },
        { op: 'ADD', inputs: [1, 1], outputs: [4] },
      ],
    },
  );
  const session = await InferenceSession.create(bytes);
  for (const [first, times] of [
    [0, 5],
    [3, 2],
    [7, 0],
  ]) {
    const { y, last } = await session.run({
      i: new Tensor('int32', [first], [1]),
      x: new Tensor('float32', [1, -2, 0.5], [3]),
    });
    assert.deepEqual(
      [...y.data],
      [1, -2, 0.5].map((number) => number * 2 ** times),
    );
    assert.deepEqual([...last.data], [Math.max(first, 5)]);
  }
  await session.release();
});

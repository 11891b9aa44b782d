// Operators of TFLite files that call subgraphs, whose results follow from their definitions.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InferenceSession, Tensor } from '../../dist/index.js';
import { Net, Random } from '../tflite/net.mjs';
import { runNet } from '../tflite/run_net.mjs';
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

test('STABLEHLO_COMPOSITE is computed as its subgraph', async () => {
  for (const type of ['float32', 'int8']) {
    const shape = [1, 3, 4, 5];
    const flat = new Net(new Random(5), false);
    const first = flat.input(type, shape);
    const addend = flat.constant(type, [5], flat.data(type, [5], -1, 1), flat.grid(first));
    const layer = (net, x, y) =>
      net.node('ADD', [net.pointwise(x), y], type, shape, {}, { range: [-9, 9] });
    const sum = layer(flat, first, addend);
    flat.done(flat.node('RELU', [sum], type, shape, {}, { grid: flat.grid(sum) }));
    const [wanted] = await runNet(flat);

    const called = new Net(new Random(5), false);
    const x = called.input(type, shape);
    // The argument of the subgraph is a constant outside of it.
    const y = called.constant(type, [5], called.data(type, [5], -1, 1), called.grid(x));
    called.done(layer(called, x, y));
    called.inputs.push(y);
    delete called.tensors[y].data;
    const outer = new Net(new Random(5), false);
    const given = outer.input(type, shape);
    const { data } = flat.tensors[addend];
    const arguments_ = [given, outer.constant(type, [5], data, outer.grid(given))];
    const result = outer.node(
      'STABLEHLO_COMPOSITE',
      arguments_,
      type,
      shape,
      {},
      {
        grid: flat.grid(sum),
        node: { composite: 1 },
      },
    );
    outer.done(outer.node('RELU', [result], type, shape, {}, { grid: flat.grid(sum) }));
    outer.bytes = () => writeTflite(outer, called);
    const session = await InferenceSession.create(outer.bytes());
    const operators = session.plan().steps.map(({ op }) => op);
    assert.ok(!operators.some((op) => /Transpose|If/.test(op)), operators.join(' '));
    const [output] = await runNet(outer);
    assert.deepEqual([...output.data], [...wanted.data]);
  }
});

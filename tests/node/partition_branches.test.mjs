// Patterns of a backend that have branches, or operators with several results.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InferenceSession, Tensor, parseModel, partition } from '../../dist/index.js';

test('patterns with branches, and operators with several results', async (t) => {
  const branches = await parseModel(`graph "g" opset 13
input %x: float32[1, 2, 4, 4]
const %w: float32[2, 2, 1, 1] = {1, 2, 3, 4}
const %half: int64[2] = {1, 1}
const %one: int64[1] = {1}
%a = Conv(%x, %w) "c1"
%b = Relu(%a) "r1"
%c = Conv(%b, %w) "c2"
%d = Conv(%x, %w) "c3"
%e = Add(%d, %c) "s1"
%f = Relu(%e) "r2"
%g, %h = Split(%f, %half) {axis = 1} "split"
%i = Sigmoid(%h) "sigmoid"
%j = Mul(%g, %i) "gate"
%k = Sigmoid(%j) "s2"
%l = Mul(%k, %j) "swish"
%m, %n = TopK(%l, %one) {axis = 3} "top"
output %m
output %n`);
  t.after(() => branches.dispose());
  const found = async (...patterns) => {
    const divided = await partition(branches, { backends: [{ name: 'b', patterns, join: false }] });
    const composites = divided.parts.flatMap((part) => part.composites);
    const outputs = await divided.createSession({
      b: async ({ model: part }) => {
        const session = await InferenceSession.create(part);
        return (feeds) => session.run(feeds);
      },
    });
    const feeds = {
      x: new Tensor(
        'float32',
        Float32Array.from({ length: 32 }, (_, i) => i / 9 - 1),
        [1, 2, 4, 4],
      ),
    };
    const whole = await (await InferenceSession.create(branches)).run(feeds);
    const got = await outputs.run(feeds);
    for (const name of ['m', 'n']) assert.deepEqual([...got[name].data], [...whole[name].data]);
    divided.dispose();
    return composites.map(({ nodes, inputs, outputs: all }) =>
      [nodes.map(({ name }) => name), inputs, all].map((names) => names.join(' ')).join(': '),
    );
  };
  const block = [
    { op: 'Conv', inputs: ['x'] },
    { op: 'Relu', optional: true },
    { op: 'Conv', outputs: ['main'] },
    { op: 'Conv', inputs: ['x'], outputs: ['shortcut'] },
    { op: 'Add', inputs: ['main', 'shortcut'] },
    { op: 'Relu', optional: true },
  ];
  assert.deepEqual(await found(block), ['c1 r1 c2 c3 s1 r2: x: f']);
  assert.deepEqual(await found(block.slice(0, 5)), ['c1 r1 c2 c3 s1: x: e']);
  const gate = [
    { op: 'Split', outputs: ['value', 'gate'] },
    { op: 'Sigmoid', inputs: ['gate'], outputs: ['factor'] },
    { op: 'Mul', inputs: ['factor', 'value'] },
  ];
  assert.deepEqual(await found(gate), ['split sigmoid gate: f: j']);
  // The halves are not exchanged: the second one goes through the Sigmoid.
  const other = [{ op: 'Split', outputs: ['gate', 'value'] }, ...gate.slice(1)];
  assert.deepEqual(await found(other), []);
  // A value from outside that two members read, and an operator with two results at the end.
  const swish = [
    { op: 'Sigmoid', inputs: ['x'], outputs: ['s'] },
    { op: 'Mul', inputs: ['x', 's'] },
  ];
  assert.deepEqual(await found(swish), ['s2 swish: j: l']);
  assert.deepEqual(
    await found([...swish, { op: 'TopK', optional: true }]),
    ['s2 swish: j: l'].map(() => 's2 swish top: j: m n'),
  );
  // Nobody else may read what is computed on the way: the gate's result has two readers.
  assert.deepEqual(await found([...gate, 'Sigmoid']), []);
  // Conditions see the members before them, in the pattern's order.
  const seen = [];
  const condition = (node, before) => {
    seen.push([node.name, before.map(({ name }) => name)]);
    return before.length === 3;
  };
  const conditional = block.map((member, i) => (i === 3 ? { ...member, if: condition } : member));
  assert.deepEqual(await found(conditional), ['c1 r1 c2 c3 s1 r2: x: f']);
  assert.deepEqual(seen[0], ['c3', ['c1', 'r1', 'c2']]);
  // A backend's patterns share operators as chains do: the first takes what it finds.
  assert.deepEqual(await found(gate, block, ['Conv', 'Relu']), [
    'c1 r1 c2 c3 s1 r2: x: f',
    'split sigmoid gate: f: j',
  ]);
});

// plan() of models with control flow: a list of instructions on registers, bodies behind their nodes.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';

const numbers = (count) => Array.from({ length: count }, (_, i) => Math.sin(i + 1).toFixed(4));
const TEXT = `graph "program" opset 17
input %go: bool[]
input %n: int64[]
input %x: float32[2, 4]
const %w: float32[4, 4] = {${numbers(16).join(', ')}}
const %zero: float32[] = {0.0}
%head = MatMul(%x, %w) "head"
%state = Loop(%n, %go, %head, %w) {body = { graph "" opset 17
input %i: int64[]
input %on: bool[]
input %s: float32[2, 4]
capture %q: float32[4, 4]
%next = MatMul(%s, %q) "inner"
%soft = Softmax(%next) {axis = -1}
%on2 = Identity(%on)
output %on2
output %soft
}} "loop"
%positive = Greater(%state, %zero)
%where = NonZero(%positive) "where"
output %where
output %state
`;

/** Whether every register that an instruction reads was written before, or comes from outside of its part. */
function checkOrder({ instructions, registers }, inputs) {
  const written = new Set();
  for (const line of instructions) {
    for (const at of line.reads.filter((index) => index >= 0)) {
      assert.ok(registers[at], `${line.name} reads register ${at}`);
      const known = written.has(at) || inputs.includes(registers[at].name);
      assert.ok(known || line.part.includes('/') || isConstant(registers[at]), line.name);
    }
    for (const at of line.writes.filter((index) => index >= 0)) written.add(at);
  }
}
const isConstant = ({ name }) => ['w', 'zero'].includes(name);

test('instructions of a loop, its body, and what lies around them', async () => {
  const model = await parseModel(TEXT);
  const session = await InferenceSession.create(model);
  const feeds = {
    go: new Tensor('bool', [true], []),
    n: new Tensor('int64', [3n], []),
    x: new Tensor('float32', Float32Array.from({ length: 8 }, Math.cos), [2, 4]),
  };
  await session.run(feeds);
  const plan = session.plan();
  assert.deepEqual(plan.steps, []);
  checkOrder(plan, session.inputNames);
  const lines = plan.instructions;
  const at = (op) => lines.findIndex((line) => line.op.startsWith(op));
  const head = lines.find(({ name }) => name === 'head');
  assert.equal(head.part, 'head');
  assert.notEqual(head.kernel, 'reference');
  assert.equal(head.macs, 32);
  const loop = lines[at('Loop')];
  assert.equal(loop.part, 'middle');
  const inner = lines.find(({ name }) => name === 'inner');
  assert.match(inner.part, /^middle\/loop\/body/);
  assert.notEqual(inner.kernel, 'reference');
  assert.ok(lines.indexOf(inner) > at('Loop') && at('NonZero') > lines.indexOf(inner));
  // The loop reads what the head wrote.
  assert.ok(loop.reads.includes(head.writes[0]));
  assert.deepEqual(plan.registers[head.writes[0]], {
    part: 'head',
    name: 'head',
    type: 'float32',
    dims: [2, 4],
  });
  assert.ok(plan.memory.arena > 0);
  const loaded = await InferenceSession.create(session.toPlan());
  await loaded.run(feeds);
  assert.deepEqual(
    loaded.plan().instructions.map(({ part, op, kernel }) => [part, op, kernel]),
    lines.map(({ part, op, kernel }) => [part, op, kernel]),
  );
  for (const one of [loaded, session, model]) one.dispose();
});

test('a branch that did not run is listed by its operators', async () => {
  const model = await parseModel(`graph "branch" opset 17
input %c: bool[]
input %x: float32[1, 2]
%y = If(%c, %x, %x) {then_branch = { graph "" opset 17
capture %a: float32[1, 2]
%z = Abs(%a)
output %z
}, else_branch = { graph "" opset 17
capture %a: float32[1, 2]
%z = Neg(%a)
output %z
}} "choice"
output %y
`);
  const session = await InferenceSession.create(model);
  await session.run({ c: new Tensor('bool', [true], []), x: new Tensor([1, -2], [1, 2]) });
  const parts = session.plan().instructions.map(({ part, op }) => `${part}: ${op}`);
  assert.deepEqual(parts.sort(), [
    'middle/choice/else_branch: Neg',
    'middle/choice/then_branch: Abs',
    'middle: If',
  ]);
  for (const one of [session, model]) one.dispose();
});

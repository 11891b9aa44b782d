// A model that runs as a program, for tests of saved plans.

import { Tensor } from '../../dist/index.js';

/** A constant of a model in text. */
export const constant = (name, dims, scale = 1) => {
  const count = dims.reduce((product, dim) => product * dim, 1);
  const values = Array.from({ length: count }, (_, at) => (scale * Math.sin(at * 1.3)).toFixed(4));
  return `const %${name}: float32[${dims.join(', ')}] = {${values.join(', ')}}`;
};

/** A branch, a loop and a list of unknown length, with products before, inside and after. */
export const PROGRAM = `graph "program" opset 17
input %c: bool[]
input %n: int64[]
input %x: float32[N, 3, 6, 6]
${constant('w', [4, 3, 3, 3], 0.5)}
${constant('v', [4, 4, 1, 1])}
${constant('m', [4, 4])}
${constant('k', [1, 5])}
const %go: bool[] = {1}
const %zero: float32[] = {0.0}
const %last: int64[1] = {1}
const %image: int64[2] = {2, 3}
%head = Conv(%x, %w) "head"
%chosen = Equal(%c, %go)
%branch = If(%chosen, %head, %v, %head) {then_branch = { graph "" opset 17
capture %a: float32[N, 4, 4, 4]
capture %p: float32[4, 4, 1, 1]
%z = Conv(%a, %p) "inside"
output %z
}, else_branch = { graph "" opset 17
capture %a: float32[N, 4, 4, 4]
%z = Abs(%a)
output %z
}} "branch"
%mean = ReduceMean(%branch) {axes = [2, 3], keepdims = 0}
%state = Loop(%n, %go, %mean, %m) {body = { graph "" opset 17
input %i: int64[]
input %on: bool[]
input %s: float32[...]
capture %q: float32[4, 4]
%next = MatMul(%s, %q)
%soft = Softmax(%next) {axis = -1}
%on2 = Identity(%on)
output %on2
output %soft
}} "loop"
%behind = MatMul(%state, %m) "behind"
%big = Greater(%behind, %zero)
%where = NonZero(%big)
%places = Transpose(%where) {perm = [1, 0]}
%list = GatherND(%behind, %places)
%column = Unsqueeze(%list, %last)
%table = MatMul(%column, %k) "of any length"
output %table
output %state
output %head
`;
/** Feeds of PROGRAM. */
export const programFeeds = (batch, taken, rounds) => ({
  c: new Tensor('bool', [taken], []),
  n: new Tensor('int64', [BigInt(rounds)], []),
  x: new Tensor(
    'float32',
    Float32Array.from({ length: batch * 108 }, (_, at) => Math.sin(at * 1.7)),
    [batch, 3, 6, 6],
  ),
});

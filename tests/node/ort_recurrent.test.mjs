// Einsum, recurrent layers and 4-bit weights on fast kernels, against ONNX Runtime.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { check, feedsOf, graph, randomSource } from './ort_operators.mjs';

describe('Einsum on fast kernels', () => {
  const cases = {
    'abc,cde->abde': ['2, 3, 8', '8, 2, 4'],
    'aecd,abcd->acbe': ['2, 5, 3, 4', '2, 6, 3, 4'],
    'acbe,aecd->abcd': ['2, 3, 6, 5', '2, 5, 3, 4'],
    'bhid,bhjd->bhij': ['2, 3, 5, 4', '2, 3, 6, 4'],
    'ij,kj->ki': ['5, 7', '6, 7'],
    'abcd,cde->abe': ['2, 3, 4, 5', '4, 5, 6'],
  };
  for (const [equation, [a, b]] of Object.entries(cases)) {
    test(equation, () => {
      const inputs = { a: `float32[${a}]`, b: `float32[${b}]` };
      const body = [`%y = Einsum(%a, %b) {equation = "${equation}"}`];
      return check(graph(17, inputs, body, ['y']), inputs, ['y'], { fast: true });
    });
  }
});

describe('recurrent layers on fast kernels', () => {
  for (const [cell, gates] of Object.entries({ RNN: 1, GRU: 3, LSTM: 4 })) {
    for (const direction of ['forward', 'reverse', 'bidirectional']) {
      for (const more of cell === 'GRU' ? ['', ', linear_before_reset = 1'] : ['']) {
        test(`${cell}, ${direction}${more}`, async () => {
          const d = direction === 'bidirectional' ? 2 : 1;
          const inputs = { x: 'float32[7, 3, 6]', h: `float32[${d}, 3, 5]` };
          const constants = Object.entries({
            w: [d, gates * 5, 6],
            r: [d, gates * 5, 5],
            b: [d, gates * 10],
          }).map(([name, dims]) => {
            const [{ data }] = feedsOf({ [name]: `float32[${dims.join(', ')}]` }, 7);
            const numbers = Array.from(data, (x) => x.toFixed(5)).join(', ');
            return `const %${name}: float32[${dims.join(', ')}] = {${numbers}}`;
          });
          const body = [
            ...constants,
            `%y, %last = ${cell}(%x, %w, %r, %b, _, %h) {hidden_size = 5, direction = "${direction}"${more}}`,
          ];
          const { kernels } = await check(graph(14, inputs, body, ['y', 'last']), inputs, [
            'y',
            'last',
          ]);
          assert.ok(kernels.every((step) => !step.endsWith(' reference')));
        });
      }
    }
  }
});

test('4-bit weights behind a blocked DequantizeLinear stay packed', async () => {
  const random = randomSource(4);
  const list = (count, next) => Array.from({ length: count }, next).join(', ');
  const inputs = { x: 'float32[2, 64]' };
  const body = [
    `const %w: int4[64, 9] = {${list(576, () => Math.floor(random() * 16) - 8)}}`,
    `const %s: float32[2, 9] = {${list(18, () => (0.01 + random() * 0.1).toFixed(5))}}`,
    '%d = DequantizeLinear(%w, %s) {axis = 0, block_size = 32}',
    '%y = MatMul(%x, %d)',
  ];
  const { kernels } = await check(graph(21, inputs, body, ['y']), inputs, ['y']);
  assert.match(kernels.join(), /matmul_nbits/);
});

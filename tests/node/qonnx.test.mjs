// ONNX Runtime has no kernels for QONNX: the oracle is QONNX's published definition (qonnx,
// custom_op/general), implemented a second time.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';
import { randomSource } from './ort_operators.mjs';
import { floats, scale } from './ort_quantized.mjs';

describe('QONNX operators against their published semantics', () => {
  const halfEven = (x) => {
    const low = Math.floor(x);
    if (x - low !== 0.5) return Math.round(x);
    return low % 2 === 0 ? low : low + 1;
  };
  const roundings = { ROUND: halfEven, CEIL: Math.ceil, FLOOR: Math.floor };
  const run = async (operator, constants, data) => {
    const text = [
      'graph "qonnx" opset 13, qonnx.custom_op.general 1, onnx.brevitas 1, finn.custom_op.general 1',
      `input %x: float32[${data.length}]`,
      ...constants,
      `%y = ${operator}`,
      'output %y',
    ].join('\n');
    const session = await InferenceSession.create(await parseModel(text));
    try {
      return (await session.run({ x: new Tensor('float32', data, [data.length]) })).y.data;
    } finally {
      await session.release();
    }
  };
  for (const domain of ['qonnx.custom_op.general', 'onnx.brevitas', 'finn.custom_op.general']) {
    for (const [mode, round] of Object.entries(roundings)) {
      test(`Quant of ${domain}, ${mode}`, async () => {
        const random = randomSource(mode.length);
        for (let repeat = 0; repeat < 12; repeat++) {
          const [bits, signed, narrow] = [2, 2, 2].map((n) => Math.floor(random() * n));
          const width = [1, 2, 3, 4, 8][repeat % 5] + bits;
          const step = Math.fround(0.05 + random());
          const shift = signed ? 0 : Math.floor(random() * 3);
          const data = Float32Array.from(floats(random, 500, 40));
          const got = await run(
            `${domain}::Quant(%x, %s, %z, %b) {signed = ${signed}, narrow = ${narrow}, rounding_mode = "${mode}"}`,
            [scale('s', step), scale('z', shift), scale('b', width)],
            data,
          );
          const low = signed ? -(2 ** (width - 1)) + narrow : 0;
          const high = signed ? 2 ** (width - 1) - 1 : 2 ** width - 1 - narrow;
          data.forEach((x, at) => {
            const y = Math.fround(Math.fround(x / step) + shift);
            const q =
              width === 1 && signed ? (y >= 0 ? 1 : -1) : round(Math.min(Math.max(y, low), high));
            // Adding 0 turns -0 into 0.
            const wanted = Math.fround(Math.fround(q - shift) * step);
            assert.equal(got[at] + 0, wanted + 0, `${x} at ${at}`);
          });
        }
      });
    }
  }
  test('BipolarQuant and Trunc', async () => {
    const random = randomSource(5);
    const data = Float32Array.from(floats(random, 500, 4), (value, at) => (at === 7 ? 0 : value));
    const bipolar = await run('onnx.brevitas::BipolarQuant(%x, %s)', [scale('s', 0.25)], data);
    data.forEach((x, at) => assert.equal(bipolar[at], x >= 0 ? 0.25 : -0.25));
    const trunc = await run(
      'qonnx.custom_op.general::Trunc(%x, %s, %z, %i, %o) {rounding_mode = "FLOOR"}',
      [scale('s', 0.125), scale('z', 0), scale('i', 6), scale('o', 4)],
      data,
    );
    data.forEach((x, at) => {
      assert.equal(trunc[at] + 0, Math.floor(halfEven(x / 0.125) / 4) * 0.125 + 0);
    });
  });
});

// Operators of com.microsoft on images, against ONNX Runtime, or against their definition in doubles where ONNX
// Runtime has no kernel for the CPU.

import { describe } from 'node:test';
import { both, cases, defined, list, shaped } from './ort_cases.mjs';
import { constant, float } from './ort_quantized.mjs';

describe('images', () => {
  cases('CropAndResize', async (pick, random, round) => {
    const dims = [pick(1, 2), pick(1, 2), pick(1, 6), pick(1, 6)];
    const regions = list(pick(1, 3), () => list(4, () => Math.fround(random() * 1.4 - 0.2)));
    await both(
      13,
      {
        x: shaped('float32', dims),
        r: [shaped('float32', [regions.length, 4]), regions.flat()],
        b: [shaped('int32', [regions.length]), regions.map(() => pick(0, dims[0] - 1))],
      },
      [
        constant('s', 'int32', [2], [pick(1, 5), pick(1, 5)]),
        `%y = com.microsoft::CropAndResize(%x, %r, %b, %s) ` +
          `{mode = "${round % 2 ? 'nearest' : 'bilinear'}", extrapolation_value = ${float(random())}}`,
      ],
      ['y'],
      { tolerance: 1e-5 },
    );
  });

  cases('GroupNorm', async (pick, random, round) => {
    const [groups, each] = [pick(1, 3), pick(1, 3)];
    const channels = groups * each;
    const [batch, height, width] = [pick(1, 2), pick(1, 4), pick(1, 4)];
    const last = round % 2;
    const silu = pick(0, 1);
    const dims = last ? [batch, height, width, channels] : [batch, channels, height, width];
    const pixels = height * width;
    const place = (n, c, p) =>
      last ? (n * pixels + p) * channels + c : (n * channels + c) * pixels + p;
    await defined(
      [13, 18][pick(0, 1)],
      {
        x: shaped('float32', dims),
        g: shaped('float32', [channels]),
        b: shaped('float32', [channels]),
      },
      [
        `%y = com.microsoft::GroupNorm(%x, %g, %b) {groups = ${groups}, channels_last = ${last}, ` +
          `activation = ${silu}, epsilon = ${float(1e-3)}}`,
      ],
      ['y'],
      ({ x, g, b }) => {
        const out = new Array(x.length);
        for (let n = 0; n < batch; n++) {
          for (let group = 0; group < groups; group++) {
            const members = list(each * pixels, (i) => [
              group * each + Math.floor(i / pixels),
              i % pixels,
            ]);
            const values = members.map(([c, p]) => x[place(n, c, p)]);
            const mean = values.reduce((sum, v) => sum + v, 0) / values.length;
            const variance = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length;
            for (const [c, p] of members) {
              const y =
                ((x[place(n, c, p)] - mean) / Math.sqrt(variance + Math.fround(1e-3))) * g[c] +
                b[c];
              out[place(n, c, p)] = silu ? y / (1 + Math.exp(-y)) : y;
            }
          }
        }
        return [[dims, out]];
      },
    );
  });

  cases('BiasSplitGelu', async (pick) => {
    const [rows, width] = [pick(1, 4), pick(1, 5)];
    // Abramowitz and Stegun 7.1.26 is too rough; a series converges for these numbers.
    const erf = (x) => {
      let [term, sum] = [x, x];
      for (let n = 1; n < 60; n++) {
        term *= (-x * x) / n;
        sum += term / (2 * n + 1);
      }
      return (2 / Math.sqrt(Math.PI)) * sum;
    };
    await defined(
      [13, 18][pick(0, 1)],
      { x: shaped('float32', [1, rows, 2 * width]), b: shaped('float32', [2 * width]) },
      ['%y = com.microsoft::BiasSplitGelu(%x, %b)'],
      ['y'],
      ({ x, b }) => [
        [
          [1, rows, width],
          list(rows * width, (i) => {
            const [row, c] = [Math.floor(i / width), i % width];
            const left = x[row * 2 * width + c] + b[c];
            const right = x[row * 2 * width + width + c] + b[width + c];
            return left * 0.5 * right * (1 + erf(right / Math.SQRT2));
          }),
        ],
      ],
    );
  });
});

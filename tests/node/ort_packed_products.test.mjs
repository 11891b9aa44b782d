// Products of com.microsoft with packed weights, against ONNX Runtime or their definition.

import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';
import { both, cases, defined, list, shaped } from './ort_cases.mjs';
import { feedsOf, graph } from './ort_operators.mjs';
import { constant, float, integers } from './ort_quantized.mjs';

describe('products with packed weights', () => {
  cases('MatMulNBits', async (pick, random, round) => {
    const bits = [4, 2, 8][round % 3];
    const block = [16, 32, 64][pick(0, 2)];
    const groups = bits === 4 && round % 2 === 0;
    // With g_idx, ONNX Runtime is only right for whole blocks, and ignores zero points.
    const k = groups ? block * pick(1, 4) : pick(1, 100);
    const n = pick(1, 9);
    const blocks = Math.ceil(k / block);
    const bytes = (block * bits) / 8;
    const zeros = !groups && random() < 0.5;
    const body = [
      constant('w', 'uint8', [n, blocks, bytes], integers(random, n * blocks * bytes, 0, 255)),
      constant(
        's',
        'float32',
        [n * blocks],
        list(n * blocks, () => float(0.01 + random())),
      ),
    ];
    if (zeros) {
      const row = Math.ceil((blocks * bits) / 8);
      body.push(constant('z', 'uint8', [n * row], integers(random, n * row, 0, 255)));
    }
    if (groups)
      body.push(
        constant(
          'g',
          'int32',
          [k],
          list(k, () => pick(0, blocks - 1)),
        ),
      );
    body.push(
      `%y = com.microsoft::MatMulNBits(%x, %w, %s, ${zeros ? '%z' : '_'}${groups ? ', %g' : ''}) ` +
        `{K = ${k}, N = ${n}, bits = ${bits}, block_size = ${block}}`,
    );
    await both(17, { x: shaped('float32', [pick(1, 3), k]) }, body, ['y'], { tolerance: 1e-4 });
  });

  // Codes of 3, 5, 6 and 7 bits follow each other from the lowest bit of the first byte on.
  cases('MatMulNBits of odd bits', async (pick, random, round) => {
    const bits = [3, 5, 6, 7][round % 4];
    const block = [16, 32][pick(0, 1)];
    const [k, n, rows] = [pick(1, 70), pick(1, 5), pick(1, 3)];
    const blocks = Math.ceil(k / block);
    const bytes = (block * bits) / 8;
    const packed = integers(random, n * blocks * bytes, 0, 255);
    const scales = list(n * blocks, () => Math.fround(0.001 + random() * 0.01));
    const row = Math.ceil((blocks * bits) / 8);
    const zeros = integers(random, n * row, 0, 255);
    const code = (list, first, i) => {
      let value = 0;
      for (let bit = 0; bit < bits; bit++) {
        const at = i * bits + bit;
        value |= ((list[first + (at >> 3)] >> (at & 7)) & 1) << bit;
      }
      return value;
    };
    await defined(
      17,
      { x: shaped('float32', [rows, k]) },
      [
        constant('w', 'uint8', [n, blocks, bytes], packed),
        constant('s', 'float32', [n * blocks], scales.map(float)),
        constant('z', 'uint8', [n * row], zeros),
        `%y = com.microsoft::MatMulNBits(%x, %w, %s, %z) ` +
          `{K = ${k}, N = ${n}, bits = ${bits}, block_size = ${block}}`,
      ],
      ['y'],
      ({ x }) => [
        [
          [rows, n],
          list(rows * n, (i) => {
            let sum = 0;
            for (let j = 0; j < k; j++) {
              const at = (i % n) * blocks + Math.floor(j / block);
              const real =
                code(packed, at * bytes, j % block) -
                code(zeros, (i % n) * row, Math.floor(j / block));
              sum += x[Math.floor(i / n) * k + j] * real * scales[at];
            }
            return sum;
          }),
        ],
      ],
    );
  });

  cases('MatMulBnb4', async (pick, random, round) => {
    const [k, n, block] = [pick(1, 60), pick(1, 8), [16, 32, 64][pick(0, 2)]];
    const count = k * n;
    const bytes = Math.ceil(count / 2);
    const blocks = Math.ceil(count / block);
    await both(
      17,
      { x: shaped('float32', [pick(1, 3), k]) },
      [
        constant('w', 'uint8', [bytes], integers(random, bytes, 0, 255)),
        constant(
          'm',
          'float32',
          [blocks],
          list(blocks, () => float(0.1 + random())),
        ),
        `%y = com.microsoft::MatMulBnb4(%x, %w, %m) {K = ${k}, N = ${n}, block_size = ${block}, ` +
          `quant_type = ${round % 2}, transB = 1}`,
      ],
      ['y'],
      { tolerance: 1e-5 },
    );
  });

  // Its floats would be four times its codes.
  cases('a table of rows in codes', async (pick, random, round) => {
    const [rows, width] = [pick(40, 60), 32];
    const type = ['int8', 'uint8'][round % 2];
    const [low, high] = type === 'int8' ? [-128, 127] : [0, 255];
    const each = round % 4 < 2 ? [rows] : [];
    const count = each[0] ?? 1;
    const body = [
      constant('w', type, [rows, width], integers(random, rows * width, low, high)),
      constant(
        's',
        'float32',
        each,
        list(count, () => float(0.01 + random())),
      ),
      constant('z', type, each, integers(random, count, low, high)),
      constant('m', 'float32', [], [float(rows - 1)]),
      '%p = Mul(%x, %m)',
      '%i = Cast(%p) {to = 7}',
      '%d = DequantizeLinear(%w, %s, %z) {axis = 0}',
      '%y = Gather(%d, %i)',
    ];
    const inputs = { x: shaped('float32', [pick(1, 3), pick(1, 4)]) };
    await both(17, inputs, body, ['y'], { tolerance: 0 });
    const model = await parseModel(graph(17, inputs, body, ['y']));
    const session = await InferenceSession.create(model);
    await session.run(
      Object.fromEntries(
        feedsOf(inputs, 3).map(({ name, type: of, data, dims }) => [
          name,
          new Tensor(of, data, dims),
        ]),
      ),
    );
    assert.ok(!session.plan().steps.some(({ op }) => op === 'DequantizeLinear'));
    await session.release();
    model.dispose();
  });
});

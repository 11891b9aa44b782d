// Extended operators of com.microsoft against ONNX Runtime: random shapes and attributes, optimized and not, and the files
// that the optimizer writes.

import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';
import { bothAndWritten as both, cases, floats, list, placesOf, shaped } from './ort_cases.mjs';
import { graph } from './ort_operators.mjs';
import { constant, float, integers, product, range, scale, zero } from './ort_quantized.mjs';

describe('operators of com.microsoft', () => {
  cases('QLinearWhere', async (pick, random, round) => {
    const type = ['uint8', 'int8'][round % 2];
    const [lo, hi] = range(type);
    const dims = list(pick(1, 4), () => pick(1, 6));
    // Any of the three may be broadcast.
    const stretched = () => dims.map((size) => (random() < 0.3 ? 1 : size)).slice(pick(0, 1));
    const parameters = (name) => [
      scale(`${name}s`, 0.02 + random() * 0.1),
      zero(`${name}z`, type, pick(lo, hi)),
    ];
    await both(
      17,
      {
        c: shaped('bool', stretched()),
        a: shaped(type, dims),
        b: shaped(type, stretched()),
      },
      [
        ...['a', 'b', 'y'].flatMap(parameters),
        '%y = com.microsoft::QLinearWhere(%c, %a, %as, %az, %b, %bs, %bz, %ys, %yz)',
      ],
      ['y'],
      { tolerance: 0 },
    );
  });

  cases('NhwcMaxPool', async (pick, random, round) => {
    const rank = pick(1, 3);
    const kernel = list(rank, () => pick(1, 3));
    const dims = [pick(1, 2), ...kernel.map((size) => 2 * size - 1 + pick(0, 5)), pick(1, 5)];
    const pads = [...kernel, ...kernel].map((size) => pick(0, size - 1));
    const attributes = [`kernel_shape = [${kernel}]`];
    if (random() < 0.3) {
      // If steps exceed the window, or with dilations, ONNX Runtime's padding differs.
      const strides = kernel.map((size) => pick(1, size));
      attributes.push('auto_pad = "SAME_UPPER"', `strides = [${strides}]`);
    } else {
      attributes.push(`pads = [${pads}]`, `strides = [${list(rank, () => pick(1, 3))}]`);
      if (random() < 0.4) attributes.push(`dilations = [${list(rank, () => pick(1, 2))}]`);
    }
    const ceil = random() < 0.4;
    if (ceil) attributes.push('ceil_mode = 1');
    await both(
      [12, 17, 22][round % 3],
      { x: shaped(['uint8', 'int8'][round % 2], dims) },
      [`%y = com.microsoft::NhwcMaxPool(%x) {${attributes.join(', ')}}`],
      ['y'],
      // ONNX's shape inference of MaxPool with ceil_mode differs from what ONNX Runtime computes.
      { tolerance: 0, optimized: !ceil },
    );
  });

  cases('QAttention', async (pick, random, round) => {
    const [batch, steps, heads, wide] = [pick(1, 2), pick(1, 5), pick(1, 3), pick(1, 5)];
    const [input, columns] = [pick(1, 9), 3 * heads * wide];
    const past = round % 3 === 2 ? pick(1, 4) : 0;
    const type = ['uint8', 'int8'][pick(0, 1)];
    const [lo, hi] = range(type);
    const each = random() < 0.5;
    const inputs = { x: shaped('uint8', [batch, steps, input]) };
    const body = [
      constant('w', type, [input, columns], integers(random, input * columns, lo, hi)),
      floats('b', [columns], random),
      scale('xs', 0.01),
      constant(
        'ws',
        'float32',
        each ? [columns] : [],
        list(each ? columns : 1, () => float(0.002 + random() * 0.01)),
      ),
      zero('xz', 'uint8', pick(0, 255)),
      constant('wz', type, each ? [columns] : [], integers(random, each ? columns : 1, lo, hi)),
    ];
    let mask = '_';
    if (round % 4 === 1) {
      mask = '%m';
      inputs.m = [shaped('int32', [batch]), list(batch, () => pick(1, past + steps))];
    } else if (round % 4 === 2) {
      mask = '%m';
      inputs.m = [
        shaped('int32', [batch, past + steps]),
        list(batch * (past + steps), (i) => (i % (past + steps) === 0 ? 1 : pick(0, 1))),
      ];
    }
    const zeros = random() < 0.7 ? ', %xz, %wz' : ', _, _';
    let tail = zeros;
    if (past > 0) {
      inputs.p = shaped('float32', [2, batch, heads, past, wide]);
      tail += ', %p';
    }
    const outputs = past > 0 ? ['y', 'k'] : ['y'];
    body.push(
      `%${outputs.join(', %')} = com.microsoft::QAttention(%x, %w, %b, %xs, %ws, ${mask}${tail}) ` +
        `{num_heads = ${heads}, unidirectional = ${pick(0, 1)}}`,
    );
    await both(17, inputs, body, outputs, { tolerance: 2e-5 });
  });

  cases('EmbedLayerNormalization', async (pick, random, round) => {
    const [batch, steps, width] = [pick(1, 3), pick(1, 6), pick(1, 9)];
    const [words, places, kinds] = [pick(1, 20), steps + pick(0, 4), pick(1, 3)];
    const ids = (rows, most) => [
      shaped('int32', [rows, steps]),
      list(rows * steps, () => pick(0, most)),
    ];
    const inputs = { i: ids(batch, words - 1), w: shaped('float32', [words, width]) };
    inputs.p = shaped('float32', [places, width]);
    inputs.g = shaped('float32', [width]);
    inputs.b = shaped('float32', [width]);
    if (round % 2) {
      inputs.s = ids(batch, kinds - 1);
      inputs.t = shaped('float32', [kinds, width]);
    }
    if (random() < 0.5) inputs.m = ids(batch, 2);
    if (random() < 0.5) inputs.q = ids(random() < 0.5 ? batch : 1, places - 1);
    const given = (name) => (inputs[name] ? `%${name}` : '_');
    const outputs = ['y', 'n', 'sum'].slice(0, pick(2, 3));
    await both(
      [11, 13, 17][round % 3],
      inputs,
      [
        `%${outputs.join(', %')} = com.microsoft::EmbedLayerNormalization(%i, ${given('s')}, %w, %p, ` +
          `${given('t')}, %g, %b, ${given('m')}, ${given('q')}) {epsilon = ${float(10 ** -pick(2, 5))}}`,
      ],
      outputs,
      { tolerance: 2e-5, declared: random() < 0.5 ? { i: 'int32[b, s]' } : {} },
    );
  });

  cases('GatherBlockQuantized', async (pick, random, round) => {
    const block = [16, 32, 64][pick(0, 2)];
    const bytes = round % 3 === 0;
    const bits = bytes ? [2, 4, 8][pick(0, 2)] : 4;
    const packed = bytes ? 8 / bits : 1;
    const type = bytes ? 'uint8' : ['int4', 'uint4'][pick(0, 1)];
    const [lo, hi] = { uint8: [0, 255], int4: [-8, 7], uint4: [0, 15] }[type];
    const rank = pick(2, 3);
    const quantized = bytes ? rank - 1 : pick(0, rank - 1);
    const gathered = bytes ? 0 : pick(0, rank - 1);
    const dims = list(rank, (axis) =>
      axis === quantized ? packed * pick(1, Math.floor(100 / packed)) : pick(1, 5),
    );
    const scales = dims.map((size, axis) => (axis === quantized ? Math.ceil(size / block) : size));
    const zeros = scales.map((size, axis) =>
      axis === quantized ? Math.ceil(size / packed) : size,
    );
    const stored = dims.map((size, axis) => (axis === quantized ? size / packed : size));
    const picked = list(pick(0, 2), () => pick(1, 4));
    const rows = dims[gathered];
    const at = random() < 0.2 ? (axis) => axis - rank : (axis) => axis;
    await both(
      17,
      {
        i: [
          shaped(['int32', 'int64'][pick(0, 1)], picked),
          list(product(picked), () => pick(bytes ? 0 : -rows, rows - 1)),
        ],
      },
      [
        constant('d', type, stored, integers(random, product(stored), lo, hi)),
        constant(
          's',
          'float32',
          scales,
          list(product(scales), () => float(0.01 + random())),
        ),
        constant('z', type, zeros, integers(random, product(zeros), lo, hi)),
        `%y = com.microsoft::GatherBlockQuantized(%d, %i, %s${random() < 0.6 ? ', %z' : ''}) ` +
          `{gather_axis = ${at(gathered)}, quantize_axis = ${at(quantized)}, block_size = ${block}` +
          `${bytes ? `, bits = ${bits}` : ''}}`,
      ],
    );
  });

  cases('Inverse', async (pick, random, round) => {
    const n = pick(1, 7);
    const dims = [...list(pick(0, 2), () => pick(1, 3)), n, n];
    const type = ['float32', 'float64'][round % 2];
    // A diagonal keeps the matrices far from singular ones.
    const values = list(product(dims), (i) => {
      const diagonal = Math.floor(i / n) % n === (i % n === n - 1 ? 0 : (i % n) + 1);
      return Math.fround(2 * random() - 1 + (diagonal ? 4 : 0));
    });
    await both(
      17,
      { x: [shaped(type, dims), values] },
      ['%y = com.microsoft::Inverse(%x)'],
      ['y'],
      {
        tolerance: 1e-5,
      },
    );
  });

  cases('Pad', async (pick, random, round) => {
    const rank = pick(1, 3);
    const dims = list(rank, () => pick(2, 6));
    const mode = ['constant', 'edge', 'reflect'][round % 3];
    const pads = list(2 * rank, (i) => pick(mode === 'constant' ? -1 : 0, dims[i % rank] - 1));
    const rows = random() < 0.3 ? [1, 2 * rank] : [2 * rank];
    const inputs = { x: shaped('float32', dims) };
    const body = [floats('v', [1], random)];
    if (random() < 0.5) inputs.p = [shaped('int64', rows), pads];
    else body.push(constant('p', 'int64', rows, pads));
    const value = mode === 'constant' && random() < 0.5 ? ', %v' : '';
    body.push(`%y = com.microsoft::Pad(%x, %p${value}) {mode = "${mode}"}`);
    await both([11, 13, 18][pick(0, 2)], inputs, body);
  });

  cases('Trilu', async (pick, random, round) => {
    const dims = list(pick(2, 4), () => pick(1, 6));
    const type = ['float32', 'int64', 'float64'][round % 3];
    const values = list(product(dims), () => pick(0, 1));
    const body = [`const %k: int64[] = {${pick(-7, 7)}}`];
    const upper = pick(0, 2); // 2: omitted
    body.push(
      `%y = com.microsoft::Trilu(%x${random() < 0.7 ? ', %k' : ''})` +
        `${upper < 2 ? ` {upper = ${upper}}` : ''}`,
    );
    await both([12, 14][pick(0, 1)], { x: [shaped(type, dims), values] }, body);
  });

  // ONNX Runtime has no kernel for it: the oracle is the mean of the real numbers, rounded half to even.
  cases('QLinearReduceMean', async (pick, random, round) => {
    const type = ['uint8', 'int8'][round % 2];
    const [lo, hi] = range(type);
    const dims = list(pick(1, 4), () => pick(1, 5));
    const axes = list(dims.length, (i) => i).filter((i) => i === 0 || random() < 0.5);
    const keep = pick(0, 1);
    const [xs, ys] = [0.02 + random() * 0.1, 0.02 + random() * 0.1].map(Math.fround);
    const [xz, yz] = [pick(lo, hi), pick(lo, hi)];
    const model = await parseModel(
      graph(
        round % 3 ? 13 : 18,
        { x: shaped(type, dims) },
        [
          scale('xs', xs),
          zero('xz', type, xz),
          scale('ys', ys),
          zero('yz', type, yz),
          '%y = com.microsoft::QLinearReduceMean(%x, %xs, %xz, %ys, %yz) ' +
            `{axes = [${axes}], keepdims = ${keep}}`,
        ],
        ['y'],
      ),
    );
    const data = integers(random, product(dims), lo, hi);
    const kept = dims.map((size, i) => (axes.includes(i) ? 1 : size));
    const sums = new Array(product(kept)).fill(0);
    for (const [i, value] of data.entries()) {
      const at = placesOf(i, dims).map((place, axis) => (axes.includes(axis) ? 0 : place));
      sums[at.reduce((sum, place, axis) => sum * kept[axis] + place, 0)] += (value - xz) * xs;
    }
    for (const optimize of [true, false]) {
      const session = await InferenceSession.create(model.toOnnx(), { optimize });
      const { y } = await session.run({ x: new Tensor(type, data, dims) });
      assert.deepEqual([...y.dims], keep ? kept : dims.filter((_, i) => !axes.includes(i)));
      sums.forEach((sum, i) => {
        const wanted = sum / (data.length / sums.length) / ys + yz;
        const bounded = Math.min(Math.max(wanted, lo), hi);
        assert.ok(Math.abs(y.data[i] - bounded) <= 0.5001, `${y.data[i]}, not ${bounded}`);
      });
      await session.release();
    }
    model.dispose();
  });
});

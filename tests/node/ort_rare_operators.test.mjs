// Extended operators of ONNX against ONNX Runtime: random shapes and attributes, optimized and not, and the files
// that the optimizer writes.

import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { parseModel } from '../../dist/index.js';
import { bothAndWritten as both, cases, ints, list, placesOf, shaped } from './ort_cases.mjs';
import { feedsOf, graph, runOurs } from './ort_operators.mjs';
import { float, product } from './ort_quantized.mjs';

/** Col2Im by its definition, in doubles. */
function columnsLaidDown(x, { dims, image, block, strides, dilations, pads, places }) {
  const sums = new Float64Array((dims[0] * dims[1] * product(image)) / product(block));
  for (const [i, value] of x.entries()) {
    const [row, column] = [Math.floor(i / dims[2]), i % dims[2]];
    const tap = placesOf(row % product(block), block);
    const at = placesOf(column, places).map(
      (place, axis) => place * strides[axis] + tap[axis] * dilations[axis] - pads[axis],
    );
    if (at.some((place, axis) => place < 0 || place >= image[axis])) continue;
    const plane = Math.floor(row / product(block));
    sums[at.reduce((sum, place, axis) => sum * image[axis] + place, plane)] += value;
  }
  return sums;
}

describe('operators of ONNX', () => {
  cases('CenterCropPad', async (pick, random, round) => {
    const rank = pick(1, 4);
    const dims = list(rank, () => pick(1, 7));
    const axes = list(rank, (i) => i).filter(() => random() < 0.6);
    const some = axes.length > 0 && random() < 0.7;
    const goal = list(some ? axes.length : rank, () => pick(1, 9));
    const named = axes.map((axis) => (random() < 0.3 ? axis - rank : axis));
    const type = ['float32', 'uint8', 'float64'][round % 3];
    const inputs = { x: shaped(type, dims) };
    const body = [];
    if (round % 2) inputs.s = [shaped('int64', [goal.length]), goal];
    else body.push(ints('s', goal));
    body.push(`%y = CenterCropPad(%x, %s)${some ? ` {axes = [${named.join(', ')}]}` : ''}`);
    const open = { x: shaped(type, [...dims.slice(1).map((_, i) => `d${i}`), 'last']) };
    await both(18, inputs, body, ['y'], { declared: random() < 0.5 ? open : {} });
  });

  // ONNX Runtime is only right in two dimensions (in one and three its last channels are wrong); the
  // definition is the oracle for all.
  cases('Col2Im', async (pick, random) => {
    const rank = pick(1, 3);
    const each = (lo, hi) => list(rank, () => pick(lo, hi));
    const [block, strides, dilations] = [each(1, 3), each(1, 3), each(1, 2)];
    const pads = [...each(0, 2), ...each(0, 2)];
    const extents = block.map((size, i) => (size - 1) * dilations[i] + 1);
    const image = extents.map((extent) => extent + pick(0, 6));
    const places = image.map(
      (size, i) => Math.floor((size + pads[i] + pads[rank + i] - extents[i]) / strides[i]) + 1,
    );
    const dims = [pick(1, 2), pick(1, 3) * product(block), product(places)];
    const inputs = { x: shaped(random() < 0.5 ? 'float32' : 'float64', dims) };
    const body = [
      ints('s', image),
      ints('b', block),
      `%y = Col2Im(%x, %s, %b) {strides = [${strides}], dilations = [${dilations}], pads = [${pads}]}`,
    ];
    if (rank === 2) await both(18, { x: shaped('float32', dims) }, body);
    const feeds = feedsOf(inputs, 3);
    const wanted = columnsLaidDown(feeds[0].data, {
      dims,
      image,
      block,
      strides,
      dilations,
      pads,
      places,
    });
    const model = await parseModel(graph(18, inputs, body, ['y']));
    const { y } = (await runOurs(model, feeds)).results;
    model.dispose();
    assert.deepEqual([...y.dims], [dims[0], dims[1] / product(block), ...image]);
    wanted.forEach((want, i) =>
      assert.ok(Math.abs(y.data[i] - want) < 1e-5, `${body.at(-1)}: ${i}`),
    );
  });

  cases('AffineGrid', async (pick, random, round) => {
    const axes = 2 + (round % 2);
    const type = random() < 0.5 ? 'float32' : 'float64';
    const size = [pick(1, 3), pick(1, 2), ...list(axes, () => pick(1, 6))];
    const inputs = { t: shaped(type, [size[0], axes, axes + 1]) };
    const body = [];
    if (random() < 0.5) inputs.s = [shaped('int64', [size.length]), size];
    else body.push(ints('s', size));
    body.push(`%y = AffineGrid(%t, %s) {align_corners = ${pick(0, 1)}}`);
    const declared = random() < 0.5 ? { t: `${type}[n, ${axes}, ${axes + 1}]` } : {};
    await both(20, inputs, body, ['y'], { declared });
  });

  cases('MaxRoiPool', async (pick, random) => {
    const dims = [pick(1, 2), pick(1, 3), pick(1, 9), pick(1, 9)];
    const regions = list(pick(1, 4), () => [
      pick(0, dims[0] - 1),
      ...list(4, () => Math.fround(random() * 40 - 6)),
    ]);
    const inputs = {
      x: shaped('float32', dims),
      r: [shaped('float32', [regions.length, 5]), regions.flat()],
    };
    const pooled = `pooled_shape = [${pick(1, 4)}, ${pick(1, 3)}]`;
    const scale = `spatial_scale = ${pick(1, 9) / 10}`;
    await both(13, inputs, [`%y = MaxRoiPool(%x, %r) {${pooled}, ${scale}}`]);
  });

  cases('DeformConv', async (pick, random, round) => {
    const group = pick(1, 2);
    const offsets = pick(1, 2);
    const [batch, channels, filters] = [pick(1, 2), 2 * group * pick(1, 3), group * pick(1, 4)];
    const [kernel, strides, dilations] = list(3, () => [pick(1, 2), pick(1, 2)]);
    if (random() < 0.5) kernel[0] = 3;
    const pads = list(4, () => pick(0, 2));
    const image = kernel.map(
      (size, i) => (size - 1) * dilations[i] + 1 + pick(0, round % 4 ? 4 : 20),
    );
    const out = image.map(
      (size, i) =>
        Math.floor(
          (size + pads[i] + pads[2 + i] - (kernel[i] - 1) * dilations[i] - 1) / strides[i],
        ) + 1,
    );
    const taps = product(kernel) * offsets;
    const inputs = {
      x: shaped('float32', [batch, channels, ...image]),
      w: shaped('float32', [filters, channels / group, ...kernel]),
      o: shaped('float32', [batch, 2 * taps, ...out]),
    };
    if (random() < 0.5) inputs.b = shaped('float32', [filters]);
    if (random() < 0.5) inputs.m = shaped('float32', [batch, taps, ...out]);
    const attributes =
      `{group = ${group}, offset_group = ${offsets}, strides = [${strides}], ` +
      `dilations = [${dilations}], pads = [${pads}]` +
      `${random() < 0.5 ? `, kernel_shape = [${kernel}]` : ''}}`;
    const more = `${inputs.b ? ', %b' : inputs.m ? ', _' : ''}${inputs.m ? ', %m' : ''}`;
    await both(
      round % 2 ? 22 : 19,
      inputs,
      [
        // Offsets that may reach beyond the image.
        `const %far: float32[] = {${float(random() < 0.5 ? 3 : 0.75)}}`,
        '%moved = Mul(%o, %far)',
        `%y = DeformConv(%x, %w, %moved${more}) ${attributes}`,
      ],
      ['y'],
      { tolerance: 2e-5 },
    );
  });
});

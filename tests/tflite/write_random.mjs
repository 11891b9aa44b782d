// Random small graphs for toTflite(): layers on odd sizes, in the form of write_graph.mjs.

import { Random } from './net.mjs';
import { graph, ints } from './write_graph.mjs';

const reals = (dims, ...values) => ({ type: 'float32', dims, values });
const pick = (random, list) => list[random.int(0, list.length - 1)];
const product = (dims) => dims.reduce((a, b) => a * b, 1);
const divisors = (n) => Array.from({ length: n }, (_, i) => i + 1).filter((d) => n % d === 0);

/** The window of a layer on an axis of `size`: pads never reach the kernel, and one window fits. */
function axisOf(random, size, dilated) {
  const dilation = dilated ? random.int(1, 3) : 1;
  const kernel = random.int(1, 4);
  const extent = (kernel - 1) * dilation + 1;
  let begin = random.int(0, kernel - 1);
  let end = random.int(0, kernel - 1);
  while (size + begin + end < extent) random.int(0, 1) ? ++begin : ++end;
  const stride = random.int(1, 3);
  return { kernel, dilation, stride, begin, end, out: (size + begin + end - extent) / stride + 1 };
}

const windowText = (axes, dilated) =>
  [
    `kernel_shape = [${axes.map(({ kernel }) => kernel).join(', ')}]`,
    `strides = [${axes.map(({ stride }) => stride).join(', ')}]`,
    `pads = [${[...axes.map(({ begin }) => begin), ...axes.map(({ end }) => end)].join(', ')}]`,
    ...(dilated ? [`dilations = [${axes.map(({ dilation }) => dilation).join(', ')}]`] : []),
  ].join(', ');

function conv(random, [n, c, ...space], add, groups) {
  const axes = space.map((size) => axisOf(random, size, true));
  const outputs = groups * random.int(1, groups > 1 ? 2 : 7);
  const w = add([outputs, c / groups, ...axes.map(({ kernel }) => kernel)]);
  const bias = random.int(0, 1) ? `, ${add([outputs])}` : '';
  return {
    text: (x) => `Conv(${x}, ${w}${bias}) {${windowText(axes, true)}, group = ${groups}}`,
    dims: [n, outputs, ...axes.map(({ out }) => Math.floor(out))],
  };
}

function transposedAxis(random, size) {
  const stride = random.int(1, 3);
  const kernel = random.int(1, 4);
  const more = random.int(0, stride - 1);
  const full = (size - 1) * stride + kernel;
  let begin = random.int(0, kernel - 1);
  let end = random.int(0, kernel - 1);
  if (full + more - begin - end < 1) [begin, end] = [0, 0];
  return { kernel, stride, begin, end, more, out: full + more - begin - end };
}

/** `pads`: 'counted', 'left out' (none but of a maximum) or 'same' (auto_pad). */
function pool(op, pads) {
  return (random, [n, c, ...space]) => {
    const axes = space.map((size) => axisOf(random, size, false));
    for (const axis of axes) {
      // ONNX wants pads below the kernel.
      if (axis.begin >= axis.kernel || axis.end >= axis.kernel) return undefined;
      if (op === 'AveragePool' && pads === 'left out') [axis.begin, axis.end] = [0, 0];
    }
    if (pads === 'same') {
      const text = windowText(axes, false).replace(/, pads = .*/, ', auto_pad = "SAME_UPPER"');
      const dims = [n, c, ...axes.map(({ stride }, i) => Math.ceil(space[i] / stride))];
      return { text: (x) => `${op}(${x}) {${text}}`, dims };
    }
    const ceil = op === 'MaxPool' ? random.int(0, 1) : 0;
    const outs = axes.map(({ kernel, stride, begin, end }, i) => {
      const size = space[i] + begin + end;
      const out = (ceil ? Math.ceil : Math.floor)((size - kernel) / stride + 1);
      // A last window in the pads at the end alone is left out.
      return ceil && (out - 1) * stride >= space[i] + begin ? out - 1 : out;
    });
    if (outs.some((out) => out < 1)) return undefined;
    const more = `${pads === 'counted' ? ', count_include_pad = 1' : ''}, ceil_mode = ${ceil}`;
    return {
      text: (x) => `${op}(${x}) {${windowText(axes, false)}${more}}`,
      dims: [n, c, ...outs],
    };
  };
}

const layers = {
  conv: (random, dims, add) => conv(random, dims, add, 1),
  groups: (random, dims, add) => conv(random, dims, add, pick(random, divisors(dims[1]))),
  depthwise: (random, dims, add) => conv(random, dims, add, dims[1]),
  maxPool: pool('MaxPool', 'left out'),
  sameMaxPool: pool('MaxPool', 'same'),
  averagePool: pool('AveragePool', 'left out'),
  sameAverage: pool('AveragePool', 'same'),
  paddedAverage: pool('AveragePool', 'counted'),
  transposed(random, [n, c, ...space], add) {
    const axes = space.map((size) => transposedAxis(random, size));
    const groups = pick(random, divisors(c));
    const each = random.int(1, 4);
    const w = add([c, each, ...axes.map(({ kernel }) => kernel)]);
    const more = `output_padding = [${axes.map((axis) => axis.more).join(', ')}], group = ${groups}`;
    return {
      text: (x) => `ConvTranspose(${x}, ${w}) {${windowText(axes, false)}, ${more}}`,
      dims: [n, each * groups, ...axes.map(({ out }) => out)],
    };
  },
  resize(random, [n, c, ...space], add) {
    const [mode, coordinates] = pick(random, [
      ['nearest', 'asymmetric", nearest_mode = "floor'],
      ['linear', 'half_pixel'],
      ['linear', 'asymmetric'],
      ['linear', 'align_corners'],
    ]);
    const sizes = space.map((size) => size * random.int(1, 3));
    const empty = add(reals([0]));
    const given = add(ints(n, c, ...sizes));
    return {
      text: (x) =>
        `Resize(${x}, ${empty}, ${empty}, ${given}) {mode = "${mode}", coordinate_transformation_mode = "${coordinates}"}`,
      dims: [n, c, ...sizes],
    };
  },
  slice(random, dims, add) {
    const begin = dims.map((size) => random.int(0, size - 1));
    const end = dims.map((size, i) => random.int(begin[i] + 1, size));
    const steps = dims.map(() => pick(random, [1, 1, 2]));
    const given = [begin, end, dims.map((_, i) => i), steps].map((list) => add(ints(...list)));
    return {
      text: (x) => `Slice(${x}, ${given.join(', ')})`,
      dims: dims.map((_, i) => Math.ceil((end[i] - begin[i]) / steps[i])),
    };
  },
  pad(random, dims, add) {
    const pads = [...dims, ...dims].map(() => random.int(0, 2));
    const given = add(ints(...pads));
    return {
      text: (x) => `Pad(${x}, ${given})`,
      dims: dims.map((size, i) => size + pads[i] + pads[i + dims.length]),
    };
  },
  concat(random, dims) {
    const axis = random.int(0, dims.length - 1);
    return {
      text: (x) => `Concat(${x}, ${x}) {axis = ${axis}}`,
      dims: dims.map((size, i) => (i === axis ? 2 * size : size)),
    };
  },
  mean(random, dims, add) {
    const axes = dims.map((_, i) => i).filter(() => random.int(0, 1));
    if (axes.length === 0) return undefined;
    const given = add(ints(...axes));
    return {
      text: (x) => `ReduceMean(${x}, ${given}) {keepdims = 1}`,
      dims: dims.map((size, i) => (axes.includes(i) ? 1 : size)),
    };
  },
  flatten(random, dims, add) {
    const sum = product(dims.slice(1));
    const outputs = random.int(1, 9);
    const transposed = random.int(0, 1);
    const w = add(transposed ? [outputs, sum] : [sum, outputs]);
    const shape = add(ints(dims[0], sum));
    return {
      lines: (x, y) => [
        `${y}f = Reshape(${x}, ${shape})`,
        `${y} = Gemm(%${y}f, ${w}) {transB = ${transposed}}`,
      ],
      dims: [dims[0], outputs],
      last: true,
    };
  },
  transpose(random, dims) {
    const left = dims.map((_, i) => i);
    const perm = dims.map(() => left.splice(random.int(0, left.length - 1), 1)[0]);
    return {
      text: (x) => `Transpose(${x}) {perm = [${perm.join(', ')}]}`,
      dims: perm.map((axis) => dims[axis]),
    };
  },
  softmax: (random, dims) => ({
    text: (x) => `Softmax(${x}) {axis = ${random.int(0, dims.length - 1)}}`,
    dims,
  }),
  pair(random, dims, add) {
    const other = add(dims.map((size) => (random.int(0, 1) ? size : 1)).slice(random.int(0, 2)));
    const op = pick(random, ['Add', 'Sub', 'Mul', 'Max', 'PRelu']);
    return { text: (x) => `${op}(${x}, ${other})`, dims };
  },
  itself: (random, dims) => ({ text: (x) => `${pick(random, ['Add', 'Mul'])}(${x}, ${x})`, dims }),
  unary: (random, dims) => ({
    text: (x) =>
      pick(random, ['Relu', 'Sigmoid', 'Tanh', 'HardSwish', 'LeakyRelu', 'Elu', 'Abs']) + `(${x})`,
    dims,
  }),
};

/** The graph of a seed: one to three layers; the first is each kind in turn. */
export function randomGraph(seed) {
  const random = new Random(seed + 1);
  const first = [random.int(1, 3), random.int(1, 8), random.int(1, 13), random.int(1, 13)];
  // Each fifth graph is of lines.
  if (seed % 5 === 4) first.pop();
  const kinds = Object.keys(layers);
  const constants = {};
  const add = (given) => {
    const name = `k${Object.keys(constants).length}`;
    constants[name] = given;
    return `%${name}`;
  };
  const steps = [];
  const names = [];
  const count = random.int(1, 3);
  let dims = first;
  let x = 'x';
  while (steps.length === 0 || names.length < count) {
    const kind = names.length === 0 ? kinds[seed % kinds.length] : pick(random, kinds);
    const made = layers[kind](random, dims, add);
    if (made === undefined) continue;
    const y = `v${names.length}`;
    steps.push(...(made.lines ? made.lines(`%${x}`, y) : [`${y} = ${made.text(`%${x}`)}`]));
    names.push(kind);
    dims = made.dims;
    x = y;
    if (made.last || product(dims) > 4000) break;
  }
  const name = `seed ${seed}: ${names.join(', ')} of ${first.join('x')}`;
  return { ...graph(name, { x: first }, steps, constants, { outputs: [x] }), layers: names.length };
}

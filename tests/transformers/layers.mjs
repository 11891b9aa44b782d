// The layers of exported networks, in the operators that torch.onnx and optimum write (opset 14), with random
// weights, in the forms in which hubs offer them: fp32, q8 (onnxruntime's quantize_dynamic), q4 (MatMulNBits),
// and fp16 and q4f16 (the same with float16 between inputs and outputs).

import { Graph } from './onnx_file.mjs';

/** The forms of files, and how transformers.js names them (DEFAULT_DTYPE_SUFFIX_MAPPING). */
export const suffixes = { fp32: '', fp16: '_fp16', q8: '_quantized', q4: '_q4', q4f16: '_q4f16' };

/** How many weights of a 4-bit matrix share a scale. */
const BLOCK = 32;

/** Normal numbers of mean 0 and deviation 1 from a linear congruential generator (Numerical Recipes). */
function normals(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** The random weights of one network. Two files of it that ask for the same names get the same numbers. */
export class Weights {
  #seed;
  #known = new Map();

  constructor(seed) {
    this.#seed = seed;
  }

  get(name, count, scale, shift = 0) {
    if (!this.#known.has(name)) {
      const hash = [...name].reduce(
        (sum, c) => Math.imul(sum ^ c.charCodeAt(0), 16777619),
        2166136261,
      );
      const next = normals(hash ^ Math.imul(this.#seed, 0x9e3779b1));
      this.#known.set(
        name,
        Float32Array.from({ length: count }, () => shift + scale * next()),
      );
    }
    return this.#known.get(name);
  }
}

/** Builds one file of a network. */
export class Layers {
  graph;
  #weights;
  #form;
  #constants;
  #quantized = new Map();

  /** @param outer For the body of an If: the layers around it, whose constants both share. */
  constructor(weights, form, outer) {
    this.#weights = weights;
    this.#form = form;
    this.#constants = outer ? outer.#constants : new Map();
    this.graph = new Graph(outer?.graph);
  }

  /** The layers of a body, as `branch` of an If makes them. */
  body() {
    return new Layers(this.#weights, this.#form, this);
  }

  /** The type of values between inputs and outputs. */
  get float() {
    return this.#form.endsWith('f16') || this.#form === 'fp16' ? 'float16' : 'float32';
  }

  op(...args) {
    return this.graph.op(...args);
  }

  /** An input of floats, which are float32 outside. */
  floatInput(name, dims) {
    const input = this.graph.input(name, 'float32', dims);
    return this.float === 'float32' ? input : this.op('Cast', [input], { to: 10 });
  }

  floatOutput(value, name, dims) {
    const out = this.float === 'float32' ? value : this.op('Cast', [value], { to: 1 });
    this.graph.output(out, name, 'float32', dims);
  }

  #once(key, make) {
    if (!this.#constants.has(key)) this.#constants.set(key, make());
    return this.#constants.get(key);
  }

  /** Random floats as a constant. */
  weight(name, dims, scale, shift) {
    return this.#once(name, () => {
      const count = dims.reduce((a, b) => a * b, 1);
      return this.graph.constant(
        this.float,
        dims,
        this.#weights.get(name, count, scale, shift),
        name,
      );
    });
  }

  /** Given floats as a constant. */
  floats(dims, values, stem) {
    return this.graph.constant(this.float, dims, values, stem);
  }

  scalar(value) {
    return this.floats([], [value]);
  }

  /** The 8-bit codes, scale and zero point of a value, computed once for all that read it. */
  #dynamic(x) {
    if (!this.#quantized.has(x)) {
      this.#quantized.set(x, this.op('DynamicQuantizeLinear', [x], {}, { outputs: 3 }));
    }
    return this.#quantized.get(x);
  }

  /** An 8-bit form of weights with one scale, as constants: codes, scale, zero point. */
  #codes(name, dims, scale, shift, type) {
    return this.#once(`${name}_${type}`, () => {
      const count = dims.reduce((a, b) => a * b, 1);
      const values = this.#weights.get(name, count, scale, shift);
      const most = values.reduce((max, x) => Math.max(max, Math.abs(x)), 1e-9);
      const step = most / 127;
      const zero = type === 'uint8' ? 128 : 0;
      return [
        this.graph.constant(
          type,
          dims,
          values.map((x) => Math.round(x / step) + zero),
          `${name}_quantized`,
        ),
        this.graph.constant('float32', [], [step], `${name}_scale`),
        this.graph.constant(type, [], [zero], `${name}_zero_point`),
      ];
    });
  }

  /** x times random weights [from, to]. */
  matMul(x, name, from, to, gain = 1) {
    const scale = gain / Math.sqrt(from);
    if (this.#form === 'q8') {
      const [codes, step, zero] = this.#dynamic(x);
      const [weights, weightStep, weightZero] = this.#codes(name, [from, to], scale, 0, 'int8');
      const product = this.op('MatMulInteger', [codes, weights, zero, weightZero]);
      const real = this.op('Cast', [product], { to: 1 });
      return this.op('Mul', [real, this.op('Mul', [step, weightStep])]);
    }
    if (this.#form.startsWith('q4')) {
      const [codes, scales] = this.#nibbles(name, from, to, scale);
      const attributes = { K: from, N: to, bits: 4, block_size: BLOCK };
      return this.op('MatMulNBits', [x, codes, scales], attributes, { domain: 'com.microsoft' });
    }
    return this.op('MatMul', [x, this.weight(name, [from, to], scale)]);
  }

  /** The symmetric 4-bit form of weights [from, to]: [to, blocks, 16] codes of zero point 8, and scales. */
  #nibbles(name, from, to, scale) {
    return this.#once(`${name}_q4`, () => {
      const values = this.#weights.get(name, from * to, scale);
      const blocks = Math.ceil(from / BLOCK);
      const codes = new Uint8Array((to * blocks * BLOCK) / 2);
      const scales = new Float32Array(to * blocks);
      for (let column = 0; column < to; column++) {
        for (let block = 0; block < blocks; block++) {
          const at = (row) => values[(block * BLOCK + row) * to + column] ?? 0;
          let largest = 0;
          for (let row = 0; row < BLOCK; row++) {
            if (Math.abs(at(row)) > Math.abs(largest)) largest = at(row);
          }
          const step = largest / -8 || 1;
          scales[column * blocks + block] = step;
          for (let row = 0; row < BLOCK; row++) {
            const code = Math.min(Math.max(Math.round(at(row) / step) + 8, 0), 15);
            codes[((column * blocks + block) * BLOCK + row) >> 1] |= code << (4 * (row % 2));
          }
        }
      }
      return [
        this.graph.constant('uint8', [to, blocks, BLOCK / 2], codes, `${name}_Q4`),
        this.graph.constant(this.float, [to * blocks], scales, `${name}_scales`),
      ];
    });
  }

  /** A linear layer on the last axis. */
  linear(x, name, from, to, { bias = true, gain = 1 } = {}) {
    const product = this.matMul(x, `${name}.weight`, from, to, gain);
    return bias ? this.op('Add', [this.weight(`${name}.bias`, [to], 0.1), product]) : product;
  }

  /** Rows of a random table. */
  embedding(ids, name, rows, width, scale = 0.5) {
    if (this.#form === 'q8') {
      const [table, step, zero] = this.#codes(name, [rows, width], scale, 0, 'int8');
      return this.op('DequantizeLinear', [this.op('Gather', [table, ids]), step, zero]);
    }
    return this.op('Gather', [this.weight(name, [rows, width], scale), ids]);
  }

  /** A convolution; `kernel` has one number for each axis. */
  conv(x, name, from, to, kernel, { stride = 1, pad = 0 } = {}) {
    const dims = [to, from, ...kernel];
    const scale = 1 / Math.sqrt(from * kernel.reduce((a, b) => a * b, 1));
    const attributes = {
      kernel_shape: kernel,
      strides: kernel.map(() => stride),
      pads: [...kernel, ...kernel].map(() => pad),
    };
    if (this.#form !== 'q8') {
      const weights = this.weight(`${name}.weight`, dims, scale);
      return this.op('Conv', [x, weights, this.weight(`${name}.bias`, [to], 0.1)], attributes);
    }
    const [codes, step, zero] = this.#dynamic(x);
    const [weights, weightStep, weightZero] = this.#codes(
      `${name}.weight`,
      dims,
      scale,
      0,
      'uint8',
    );
    const product = this.op('ConvInteger', [codes, weights, zero, weightZero], attributes);
    const real = this.op('Cast', [product], { to: 1 });
    const scaled = this.op('Mul', [real, this.op('Mul', [step, weightStep])]);
    const shape = this.graph.ints([1, -1, ...kernel.map(() => 1)]);
    return this.op('Add', [
      scaled,
      this.op('Reshape', [this.weight(`${name}.bias`, [to], 0.1), shape]),
    ]);
  }

  /** LayerNorm of the last axis, as opsets before 17 write it. */
  layerNorm(x, name, width, epsilon = 1e-12) {
    const mean = this.op('ReduceMean', [x], { axes: [-1] });
    const centered = this.op('Sub', [x, mean]);
    const squares = this.op('Pow', [centered, this.scalar(2)]);
    const variance = this.op('ReduceMean', [squares], { axes: [-1] });
    const epsilonUsed = this.float === 'float16' ? Math.max(epsilon, 1e-6) : epsilon;
    const root = this.op('Sqrt', [this.op('Add', [variance, this.scalar(epsilonUsed)])]);
    const normal = this.op('Div', [centered, root]);
    const scaled = this.op('Mul', [normal, this.weight(`${name}.weight`, [width], 0.2, 1)]);
    return this.op('Add', [scaled, this.weight(`${name}.bias`, [width], 0.1)]);
  }

  /** RMSNorm of the last axis, as Llama's export has it. */
  rmsNorm(x, name, width, epsilon = 1e-5) {
    const mean = this.op('ReduceMean', [this.op('Pow', [x, this.scalar(2)])], { axes: [-1] });
    const root = this.op('Sqrt', [this.op('Add', [mean, this.scalar(epsilon)])]);
    const normal = this.op('Mul', [x, this.op('Div', [this.scalar(1), root])]);
    return this.op('Mul', [this.weight(`${name}.weight`, [width], 0.2, 1), normal]);
  }

  gelu(x) {
    const erf = this.op('Erf', [this.op('Div', [x, this.scalar(Math.SQRT2)])]);
    const gate = this.op('Add', [erf, this.scalar(1)]);
    return this.op('Mul', [this.op('Mul', [x, gate]), this.scalar(0.5)]);
  }

  silu(x) {
    return this.op('Mul', [x, this.op('Sigmoid', [x])]);
  }

  /** The length of an axis as a scalar, by Shape and Gather. */
  size(x, axis) {
    return this.op('Gather', [this.op('Shape', [x]), this.graph.ints(axis)], { axis: 0 });
  }

  /** A shape of scalars (values) and numbers, by Unsqueeze and Concat. */
  shape(...dims) {
    const parts = dims.map((dim) =>
      typeof dim === 'number'
        ? this.graph.ints([dim])
        : this.op('Unsqueeze', [dim, this.graph.ints([0])]),
    );
    return this.op('Concat', parts, { axis: 0 });
  }

  reshape(x, ...dims) {
    return this.op('Reshape', [x, this.shape(...dims)]);
  }

  transpose(x, ...perm) {
    return this.op('Transpose', [x], { perm });
  }

  /** [batch, length, heads * width] as [batch, heads, length, width]. */
  heads(x, heads, width) {
    const apart = this.reshape(x, this.size(x, 0), this.size(x, 1), heads, width);
    return this.transpose(apart, 0, 2, 1, 3);
  }

  /** The inverse of `heads`. */
  joined(x, total) {
    const back = this.transpose(x, 0, 2, 1, 3);
    return this.reshape(back, this.size(back, 0), this.size(back, 1), total);
  }

  softmax(x) {
    return this.op('Softmax', [x], { axis: -1 });
  }

  /** Scores divided by the root of the width, plus a mask, as BERT and ViT have attention. */
  attention(q, k, v, width, mask) {
    const product = this.op('MatMul', [q, this.transpose(k, 0, 1, 3, 2)]);
    const scores = this.op('Div', [product, this.scalar(Math.sqrt(width))]);
    return this.op('MatMul', [this.softmax(mask ? this.op('Add', [scores, mask]) : scores), v]);
  }

  /** torch's scaled_dot_product_attention as its exporter writes it: both operands are scaled. */
  sdpa(q, k, v, mask) {
    const width = this.op('Slice', [
      this.op('Shape', [q]),
      this.graph.ints([-1]),
      this.graph.ints([2 ** 53]),
    ]);
    const real = this.op('Cast', [width], { to: this.float === 'float16' ? 10 : 1 });
    const scale = this.op('Sqrt', [
      this.op('Div', [this.floats([1], [1]), this.op('Sqrt', [real])]),
    ]);
    const scaledKeys = this.op('Mul', [this.transpose(k, 0, 1, 3, 2), scale]);
    const scores = this.op('MatMul', [this.op('Mul', [q, scale]), scaledKeys]);
    return this.op('MatMul', [this.softmax(mask ? this.op('Add', [scores, mask]) : scores), v]);
  }
}

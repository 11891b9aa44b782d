// Builds small TFLite models, and random feeds for them.

import { padding, types } from './schema.mjs';
import { writeTflite } from './writer.mjs';

/** A generator of random numbers (Lehmer, modulus 2^31 - 1). */
export class Random {
  #state;

  constructor(seed) {
    this.#state = (seed * 48271 + 11) % 2147483647 || 1;
  }

  /** A number of [0, 1). */
  next() {
    this.#state = (this.#state * 48271) % 2147483647;
    return this.#state / 2147483647;
  }

  int(low, high) {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  real(low, high) {
    return Math.fround(low + this.next() * (high - low));
  }
}

const arrays = {
  float32: Float32Array,
  float16: Uint16Array,
  int32: Int32Array,
  uint8: Uint8Array,
  int64: BigInt64Array,
  bool: Uint8Array,
  int16: Int16Array,
  int8: Int8Array,
};

export const limits = { int8: [-128, 127], uint8: [0, 255], int16: [-32768, 32767] };

/** Scale and zero point of codes for numbers of [low, high]; none for other types. */
export function gridOf(type, low, high) {
  if (!(type in limits)) return {};
  const [least, most] = limits[type];
  if (type === 'int16') {
    return { scales: [Math.fround(Math.max(-low, high) / 32767)], zeros: [0] };
  }
  const scale = Math.fround((high - low) / 255);
  const zero = Math.round(least - low / scale);
  return { scales: [scale], zeros: [Math.min(most, Math.max(least, zero))] };
}

const count = (shape) => shape.reduce((a, b) => a * b, 1);

export function halfOf(value) {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value);
  const bits = view.getUint32(0);
  const exponent = ((bits >> 23) & 255) - 112;
  if (exponent <= 0) return (bits >>> 16) & 0x8000;
  return ((bits >>> 16) & 0x8000) | (exponent << 10) | ((bits >> 13) & 0x3ff);
}

export class Net {
  tensors = [];
  nodes = [];
  inputs = [];
  outputs = [];
  feeds = {};

  /** `wrapped`: inputs and outputs are those that LiteRT.js takes, floats and int32, and converted inside. */
  constructor(random, wrapped = true) {
    this.random = random;
    this.wrapped = wrapped;
  }

  #tensor(fields) {
    return this.tensors.push({ name: `t${this.tensors.length}`, ...fields }) - 1;
  }

  #feed(index, type, dims, data) {
    this.inputs.push(index);
    this.feeds[this.tensors[index].name] = { type, dims, data };
  }

  data(type, shape, low, high) {
    const size = count(shape);
    const array = new arrays[type](size);
    for (let i = 0; i < size; ++i) {
      if (type === 'float32') array[i] = this.random.real(low, high);
      else if (type === 'float16') array[i] = halfOf(this.random.real(low, high));
      else if (type === 'bool') array[i] = this.random.int(0, 1);
      else if (type in limits) array[i] = this.random.int(...limits[type]);
      else if (type === 'int64') array[i] = BigInt(this.random.int(low, high));
      else array[i] = this.random.int(low, high);
    }
    return array;
  }

  /** An input of random numbers of [low, high]. */
  input(type, shape, low = -3, high = 3, more = {}) {
    const data = this.data(type, shape, low, high);
    if (!this.wrapped || (!(type in limits) && type !== 'bool')) {
      const index = this.#tensor({ type, shape, ...gridOf(type, low, high), ...more });
      this.#feed(index, type, shape, data);
      return index;
    }
    const grid = gridOf(type, low, high);
    const outer = type === 'bool' ? 'int32' : 'float32';
    const given = this.#tensor({ type: outer, shape });
    const values =
      type === 'bool'
        ? Int32Array.from(data)
        : Float32Array.from(data, (code) => grid.scales[0] * (code - grid.zeros[0]));
    this.#feed(given, outer, shape, values);
    if (type === 'bool')
      return this.node('CAST', [given], type, shape, { from: types.int32, to: types.bool });
    return this.node('QUANTIZE', [given], type, shape, {}, { grid });
  }

  constant(type, shape, data, more = {}) {
    const values = Array.isArray(data)
      ? arrays[type].from(data, type === 'int64' ? BigInt : undefined)
      : data;
    return this.#tensor({ type, shape, data: values, ...more });
  }

  /** A state: a variable tensor, which is zero when a model is loaded. */
  state(type, shape) {
    return this.#tensor({ type, shape, variable: true });
  }

  ints(values, shape = [values.length]) {
    return this.constant('int32', shape, values);
  }

  /** Random weights of [-1, 1]: int8 symmetric, per channel of `axis` if that is given. */
  weights(type, shape, axis, low = -1, high = 1) {
    if (type === 'int8') {
      const channels = axis === undefined ? 1 : shape[axis];
      const scales = Array.from({ length: channels }, () => this.random.real(0.004, 0.008));
      const data = this.data('int8', shape, 0, 0).map((code) => Math.max(code, -127));
      return this.constant('int8', shape, data, { scales, axis: axis ?? 0 });
    }
    if (type === 'uint8') {
      const data = this.data('uint8', shape, 0, 0);
      return this.constant('uint8', shape, data, { scales: [Math.fround(0.0078)], zeros: [121] });
    }
    return this.constant(type, shape, this.data(type, shape, low, high));
  }

  /** The bias of a layer: int32 or int64 at the scale of its products, or floats. */
  bias(input, weights, channels) {
    const x = this.tensors[input];
    const w = this.tensors[weights];
    if (!x.scales)
      return this.constant('float32', [channels], this.data('float32', [channels], -1, 1));
    const scales = w.scales.map((scale) => Math.fround(x.scales[0] * scale));
    const type = x.type === 'int16' ? 'int64' : 'int32';
    const codes = Array.from({ length: channels }, (_, i) =>
      Math.round(this.random.real(-1, 1) / scales[scales.length === 1 ? 0 : i]),
    );
    return this.constant(type, [channels], codes, { scales });
  }

  /** A node with one output of that type and shape; returns the output. */
  node(
    op,
    inputs,
    type,
    shape,
    options = {},
    { range = [-4, 4], grid, more = {}, node = {} } = {},
  ) {
    const output = this.#tensor({ type, shape, ...(grid ?? gridOf(type, ...range)), ...more });
    this.nodes.push({ op, inputs, outputs: [output], options, ...node });
    return output;
  }

  nodes2(op, inputs, outputs, options = {}) {
    const made = outputs.map(({ type, shape, range = [-4, 4], grid }) =>
      this.#tensor({ type, shape, ...(grid ?? gridOf(type, ...range)) }),
    );
    this.nodes.push({ op, inputs, outputs: made, options });
    return made;
  }

  /** The grid of a tensor, for operators whose output must have its input's. */
  grid(index) {
    const { scales, zeros } = this.tensors[index];
    return scales ? { scales, zeros } : {};
  }

  /** A 1x1 convolution, behind which images are planar. */
  pointwise(x) {
    const { type, shape } = this.tensors[x];
    const channels = shape[3];
    const w = this.weights(
      type === 'int16' ? 'int8' : type,
      [channels, 1, 1, channels],
      type === 'uint8' ? undefined : 0,
    );
    const b = this.bias(x, w, channels);
    return this.node('CONV_2D', [x, w, b], type, shape, {
      padding: padding.VALID,
      strideW: 1,
      strideH: 1,
    });
  }

  done(...outputs) {
    this.outputs = outputs.map((index) => {
      const { type, shape } = this.tensors[index];
      if (!this.wrapped) return index;
      if (type in limits) return this.node('DEQUANTIZE', [index], 'float32', shape);
      if (type === 'bool') {
        return this.node('CAST', [index], 'int32', shape, { from: types.bool, to: types.int32 });
      }
      return index;
    });
    /** The steps of the outputs, which are floats made of codes; undefined for others. */
    this.steps = outputs.map((index) => {
      const maker = this.nodes.find((node) => node.outputs.includes(index));
      const codes = maker?.op === 'DEQUANTIZE' ? maker.inputs[0] : index;
      return this.tensors[codes].scales?.[0];
    });
    return this;
  }

  bytes(...more) {
    return writeTflite(this, ...more);
  }
}

export const typeNumber = (type) => types[type];

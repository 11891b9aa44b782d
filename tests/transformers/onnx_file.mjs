// Writes ONNX files from JavaScript: the messages of onnx.proto3 that models of transformers.js need
// (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3 has the numbers of the fields).

const utf8 = new TextEncoder();

/** Numbers of TensorProto.DataType, and how an array of numbers becomes bytes. */
export const types = {
  float32: { id: 1, bytes: (values) => bytesOf(Float32Array.from(values)) },
  uint8: { id: 2, bytes: (values) => Uint8Array.from(values) },
  int8: { id: 3, bytes: (values) => bytesOf(Int8Array.from(values)) },
  int32: { id: 6, bytes: (values) => bytesOf(Int32Array.from(values)) },
  int64: { id: 7, bytes: (values) => bytesOf(BigInt64Array.from(values, (x) => BigInt(x))) },
  bool: { id: 9, bytes: (values) => Uint8Array.from(values, Number) },
  float16: { id: 10, bytes: (values) => bytesOf(Uint16Array.from(values, halfBits)) },
};

function bytesOf(view) {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

const single = new Float32Array(1);
const bits = new Uint32Array(single.buffer);

/** The bits of the float16 nearest to a number, ties to even; numbers beyond its range become its limits. */
export function halfBits(value) {
  single[0] = Math.min(Math.max(value, -65504), 65504);
  const sign = (bits[0] >>> 16) & 0x8000;
  const magnitude = Math.abs(single[0]);
  const exponent = Math.max(Math.floor(Math.log2(magnitude || 1e-9)), -14);
  let mantissa = magnitude / 2 ** (exponent - 10);
  const floor = Math.floor(mantissa);
  const rest = mantissa - floor;
  mantissa = floor + (rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? 1 : 0);
  // A mantissa below 1024 is subnormal; one of 2048 carries into the exponent by itself.
  return sign | (mantissa < 1024 ? mantissa : ((exponent + 14) << 10) + mantissa);
}

function varint(value) {
  let rest = BigInt.asUintN(64, BigInt(value));
  const out = [];
  do {
    const low = Number(rest & 127n);
    rest >>= 7n;
    out.push(rest > 0n ? low | 128 : low);
  } while (rest > 0n);
  return Uint8Array.from(out);
}

function concat(parts) {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

const tag = (field, wire) => varint((field << 3) | wire);
const integer = (field, value) => [tag(field, 0), varint(value)];
const bytes = (field, value) => [tag(field, 2), varint(value.length), value];
const text = (field, value) => bytes(field, utf8.encode(value));
const message = (field, parts) => bytes(field, concat(parts.flat()));
const float = (field, value) => [tag(field, 5), bytesOf(Float32Array.of(value))];

/** A tensor with its data, or with the data's place at the end of `external`, a list of buffers of a file. */
function tensor(field, { name = '', type, dims, data }, external) {
  const entry = (key, value) => message(13, [text(1, key), text(2, String(value))]);
  const offset = external?.parts.reduce((sum, part) => sum + part.length, 0);
  external?.parts.push(data);
  const place = external && [
    entry('location', external.location),
    entry('offset', offset),
    entry('length', data.length),
    integer(14, 1),
  ];
  return message(field, [
    ...dims.map((dim) => integer(1, dim)),
    integer(2, types[type].id),
    text(8, name),
    ...(place ?? [bytes(9, data)]),
  ]);
}

function attribute(name, value) {
  const typed = (type, ...parts) => message(5, [text(1, name), ...parts, integer(20, type)]);
  if (value instanceof Graph) return typed(5, message(6, value.parts()));
  if (typeof value === 'string') return typed(3, text(4, value));
  if (typeof value === 'number') return typed(2, integer(3, value));
  if (Array.isArray(value)) return typed(7, ...value.map((item) => integer(8, item)));
  if ('float' in value) return typed(1, float(2, value.float));
  return typed(4, tensor(5, value));
}

function valueInfo(field, { name, type, dims }) {
  const shape = dims.map((dim) =>
    message(1, [typeof dim === 'string' ? text(2, dim) : integer(1, dim)]),
  );
  const tensorType = message(1, [integer(1, types[type].id), message(2, shape)]);
  return message(field, [text(1, name), message(2, [tensorType])]);
}

/** A graph that grows by calls; values are their names. */
export class Graph {
  #outer;
  #names = 0;
  #nodes = [];
  #constants = [];
  #inputs = [];
  #outputs = [];

  /** @param outer The graph around a body: its constants and values can be used here. */
  constructor(outer) {
    this.#outer = outer;
  }

  #fresh(stem) {
    if (this.#outer) return this.#outer.#fresh(stem);
    this.#names += 1;
    return `${stem}_${this.#names}`;
  }

  input(name, type, dims) {
    this.#inputs.push({ name, type, dims });
    return name;
  }

  /** Makes a value an output of that name. */
  output(value, name, type, dims) {
    if (value !== name) {
      this.#nodes.push({ op: 'Identity', inputs: [value], outputs: [name], attributes: {} });
    }
    this.#outputs.push({ name, type, dims });
  }

  /** A constant of numbers, or of bytes that are ready; constants of bodies lie in the outermost graph. */
  constant(type, dims, values, stem = 'constant') {
    if (this.#outer) return this.#outer.constant(type, dims, values, stem);
    const name = this.#fresh(stem);
    this.#constants.push({ name, type, dims, data: types[type].bytes(values) });
    return name;
  }

  /** Integers as a constant: a scalar, or of one axis. */
  ints(values) {
    return Array.isArray(values)
      ? this.constant('int64', [values.length], values)
      : this.constant('int64', [], [values]);
  }

  /** A Constant node, as exporters write dummy outputs. */
  constantNode(name, type, dims, values) {
    const value = { type, dims, data: types[type].bytes(values) };
    this.#nodes.push({ op: 'Constant', inputs: [], outputs: [name], attributes: { value } });
    return name;
  }

  /** Adds a node; gives its output, or an array of them where `outputs` is a number or names. */
  op(op, inputs, attributes = {}, { outputs, domain } = {}) {
    const count = typeof outputs === 'number' ? outputs : 1;
    const names = Array.isArray(outputs)
      ? outputs
      : Array.from({ length: count }, () => this.#fresh(op));
    this.#nodes.push({ op, inputs, outputs: names, attributes, domain });
    return outputs === undefined ? names[0] : names;
  }

  /** The fields of GraphProto. */
  parts(external) {
    return [
      ...this.#nodes.map(({ op, inputs, outputs, attributes, domain = '' }) =>
        message(1, [
          ...inputs.map((name) => text(1, name)),
          ...outputs.map((name) => text(2, name)),
          text(3, `/${op}/${outputs[0]}`),
          text(4, op),
          ...Object.entries(attributes).map(([name, value]) => attribute(name, value)),
          ...(domain === '' ? [] : [text(7, domain)]),
        ]),
      ),
      text(2, 'main_graph'),
      ...this.#constants.map((constant) => tensor(5, constant, external)),
      ...this.#inputs.map((info) => valueInfo(11, info)),
      ...this.#outputs.map((info) => valueInfo(12, info)),
    ];
  }

  /** The bytes of an ONNX file, and those of a file `location` with the constants. */
  toExternal(location, opset = 14) {
    const external = { location, parts: [] };
    return { model: this.toOnnx(opset, external), data: concat(external.parts) };
  }

  /** The bytes of an ONNX file. */
  toOnnx(opset = 14, external = undefined) {
    const version = (domain, number) => message(8, [text(1, domain), integer(2, number)]);
    return concat(
      [
        integer(1, 8),
        text(2, 'pytorch'),
        message(7, this.parts(external)),
        version('', opset),
        version('com.microsoft', 1),
      ].flat(),
    );
  }
}

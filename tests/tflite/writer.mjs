// Writes .tflite files with the flatbuffers package, for tests. The numbers of fields are those of
// tensorflow/lite/schema/schema.fbs.

import { Builder } from 'flatbuffers';
import { operators, types } from './schema.mjs';

/** The first version of an operator that LiteRT.js has, if that is not 1. */
const versions = { BROADCAST_TO: 2 };

function table(builder, fields) {
  const last = Math.max(-1, ...fields.map(([slot]) => slot));
  builder.startObject(last + 1);
  for (const [slot, kind, value] of fields) {
    // No default is left out, so that readers need not know it.
    builder.forceDefaults(true);
    if (kind === 'offset') builder.addFieldOffset(slot, value, 0);
    else if (kind === 'int8' || kind === 'bool') builder.addFieldInt8(slot, Number(value), 0);
    else if (kind === 'int32') builder.addFieldInt32(slot, value, 0);
    else if (kind === 'int64') builder.addFieldInt64(slot, BigInt(value), 0n);
    else if (kind === 'float32') builder.addFieldFloat32(slot, value, 0);
    builder.forceDefaults(false);
  }
  return builder.endObject();
}

function ints(builder, values) {
  builder.startVector(4, values.length, 4);
  for (let i = values.length - 1; i >= 0; --i) builder.addInt32(values[i]);
  return builder.endVector();
}

function longs(builder, values) {
  builder.startVector(8, values.length, 8);
  for (let i = values.length - 1; i >= 0; --i) builder.addInt64(BigInt(values[i]));
  return builder.endVector();
}

function floats(builder, values) {
  builder.startVector(4, values.length, 4);
  for (let i = values.length - 1; i >= 0; --i) builder.addFloat32(values[i]);
  return builder.endVector();
}

function offsets(builder, values) {
  builder.startVector(4, values.length, 4);
  for (let i = values.length - 1; i >= 0; --i) builder.addOffset(values[i]);
  return builder.endVector();
}

function bytes(builder, data) {
  builder.startVector(1, data.length, 16);
  for (let i = data.length - 1; i >= 0; --i) builder.addInt8(data[i]);
  return builder.endVector();
}

function writeTensor(builder, tensor, buffer) {
  const name = builder.createString(tensor.name);
  const shape = ints(builder, tensor.shape);
  const fields = [
    [0, 'offset', shape],
    [1, 'int8', types[tensor.type]],
    [2, 'int32', buffer],
    [3, 'offset', name],
  ];
  if (tensor.scales) {
    const scales = floats(builder, tensor.scales);
    const zeros = longs(builder, tensor.zeros ?? tensor.scales.map(() => 0));
    const quantization = table(builder, [
      [2, 'offset', scales],
      [3, 'offset', zeros],
      [6, 'int32', tensor.axis ?? 0],
    ]);
    fields.push([4, 'offset', quantization]);
  }
  if (tensor.variable) fields.push([5, 'bool', true]);
  if (tensor.signature) fields.push([7, 'offset', ints(builder, tensor.signature)]);
  return table(builder, fields);
}

function writeOptions(builder, { fields }, options) {
  const out = [];
  for (const [name, value] of Object.entries(options)) {
    const [slot, kind] = fields[name];
    if (kind === 'ints') out.push([slot, 'offset', ints(builder, value)]);
    else if (kind === 'floats') out.push([slot, 'offset', floats(builder, value)]);
    else out.push([slot, kind, value]);
  }
  return table(builder, out);
}

/**
 * A file of these subgraphs: `tensors` ({ name, shape, type, data?, scales?, zeros?, axis?, signature?,
 * variable? }), `inputs` and `outputs` (indices), `nodes` ({ op, inputs, outputs, options?, custom?, bytes? }).
 * `data` is a typed array whose bytes the file gets.
 */
export function writeTflite(...subgraphs) {
  const builder = new Builder(1024);
  const codes = [];
  const buffers = [new Uint8Array(0)];
  const graphs = subgraphs.map(({ tensors, inputs, outputs, nodes }) => {
    const written = tensors.map((tensor) => {
      let buffer = 0;
      if (tensor.data) {
        const { data } = tensor;
        buffer = buffers.push(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) - 1;
      }
      return writeTensor(builder, tensor, buffer);
    });
    const made = nodes.map((node) => {
      const key = node.op === 'CUSTOM' ? `CUSTOM ${node.custom}` : node.op;
      if (!codes.includes(key)) codes.push(key);
      const operator = operators[node.op];
      const fields = [
        [0, 'int32', codes.indexOf(key)],
        [1, 'offset', ints(builder, node.inputs)],
        [2, 'offset', ints(builder, node.outputs)],
      ];
      if (operator.union !== 0) {
        const options = writeOptions(builder, operator, node.options ?? {});
        fields.push([3, 'int8', operator.union], [4, 'offset', options]);
      }
      if (node.composite !== undefined) {
        // The second union of options: StableHLOCompositeOptions.
        const name = builder.createString(node.name ?? 'a composite');
        const options = table(builder, [
          [0, 'offset', name],
          [1, 'int32', node.composite],
        ]);
        fields.push([11, 'int8', 21], [12, 'offset', options]);
      }
      if (node.bytes) fields.push([5, 'offset', bytes(builder, node.bytes)]);
      return table(builder, fields);
    });
    const fields = [
      [0, 'offset', offsets(builder, written)],
      [1, 'offset', ints(builder, inputs)],
      [2, 'offset', ints(builder, outputs)],
      [3, 'offset', offsets(builder, made)],
      [4, 'offset', builder.createString('main')],
    ];
    return table(builder, fields);
  });
  const writtenCodes = codes.map((key) => {
    const [op, custom] = key.split(' ');
    const { code } = operators[op];
    const fields = [
      [0, 'int8', Math.min(code, 127)],
      [2, 'int32', versions[op] ?? 1],
      [3, 'int32', code],
    ];
    if (custom) fields.push([1, 'offset', builder.createString(custom)]);
    return table(builder, fields);
  });
  const writtenBuffers = buffers.map((data) =>
    table(builder, data.length > 0 ? [[0, 'offset', bytes(builder, data)]] : []),
  );
  const description = builder.createString('a test of requant');
  const fields = [
    [0, 'int32', 3],
    [1, 'offset', offsets(builder, writtenCodes)],
    [2, 'offset', offsets(builder, graphs)],
    [3, 'offset', description],
    [4, 'offset', offsets(builder, writtenBuffers)],
  ];
  builder.finish(table(builder, fields), 'TFL3');
  return builder.asUint8Array().slice();
}

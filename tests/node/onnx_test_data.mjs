// ONNX's own conformance data as packaged by Debian (libonnx-testdata): the folders, the recorded tensors,
// and the needs of a model, read straight from its bytes.

import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { parseTensorProto } from 'requant/dataset';

export const DATA = '/usr/share/libonnx-testdata/data';
export const FOLDERS = ['node', 'simple', 'pytorch-converted', 'pytorch-operator', 'real'];
export const haveData = existsSync(DATA);

/** The tests of a folder that have a model; those in `real` only name files to download. */
export function testsOf(folder) {
  return readdirSync(path.join(DATA, folder))
    .sort()
    .map((name) => ({ name, folder: path.join(DATA, folder, name) }))
    .filter((test) => existsSync(path.join(test.folder, 'model.onnx')));
}

/** Tests that only name a file to download. */
export function testsWithoutModel(folder) {
  return readdirSync(path.join(DATA, folder))
    .sort()
    .filter((name) => !existsSync(path.join(DATA, folder, name, 'model.onnx')));
}

/** Calls `visit(field, wire, value)` for every field of a message; length-delimited values are bytes. */
function fields(bytes, visit) {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = varint();
    const wire = key % 8;
    let value;
    if (wire === 0) value = varint();
    else if (wire === 1) at += 8;
    else if (wire === 5) at += 4;
    else {
      const size = varint();
      value = bytes.subarray(at, at + size);
      at += size;
    }
    visit(Math.floor(key / 8), value);
  }
}

/** Whether the model's inputs and outputs are tensors, sequences or optional values, in order. */
function kindsOf(model) {
  const kinds = { input: [], output: [] };
  const kindOf = (info) => {
    let kind = 'tensor';
    fields(info, (field, type) => {
      if (field !== 2) return;
      fields(type, (inner) => {
        if (inner === 4) kind = 'sequence';
        if (inner === 9) kind = 'optional';
      });
    });
    return kind;
  };
  fields(model, (top, graph) => {
    if (top !== 7) return;
    fields(graph, (field, value) => {
      if (field === 11) kinds.input.push(kindOf(value));
      if (field === 12) kinds.output.push(kindOf(value));
    });
  });
  return kinds;
}

/** A list of tensors in a SequenceProto, or in an OptionalProto: of the tensor, or of one list. */
function parseItems(bytes) {
  const items = [];
  fields(bytes, (field, value) => {
    if (field === 3) items.push(parseTensorProto(value).tensor);
    if (field === 5) items.push({ items: parseItems(value) });
  });
  return items;
}

/** The recorded inputs and outputs: file names `input_0.pb` ..., in order; { items } for a container. */
export function dataSets(test) {
  const kinds = kindsOf(new Uint8Array(readFileSync(path.join(test.folder, 'model.onnx'))));
  return readdirSync(test.folder)
    .filter((name) => name.startsWith('test_data_set_'))
    .sort()
    .map((name) => {
      const read = (kind) => {
        const tensors = [];
        for (let index = 0; ; index++) {
          const file = path.join(test.folder, name, `${kind}_${index}.pb`);
          if (!existsSync(file)) return tensors;
          const bytes = new Uint8Array(readFileSync(file));
          const whole = kinds[kind][index] === 'tensor';
          tensors.push(whole ? parseTensorProto(bytes).tensor : { items: parseItems(bytes) });
        }
      };
      return { inputs: read('input'), outputs: read('output') };
    });
}

const text = (bytes) => new TextDecoder().decode(bytes);

/** The operators that a model file mentions (fields of onnx.proto), and whether one of them trains. */
function contents(bytes) {
  const operators = new Set();
  let training = false;
  const readNode = (node) => {
    let operator = '';
    let domain = '';
    const attributes = new Map();
    fields(node, (field, value) => {
      if (field === 4) operator = text(value);
      if (field === 7) domain = text(value);
      if (field !== 5) return;
      let name = '';
      let number;
      fields(value, (inner, item) => {
        if (inner === 1) name = text(item);
        if (inner === 3) number = item;
        if (inner === 6) readGraph(item);
      });
      attributes.set(name, number);
    });
    operators.add(domain ? `${domain}::${operator}` : operator);
    if (attributes.get('training_mode') === 1) training = true;
  };
  const readGraph = (graph) => fields(graph, (field, value) => field === 1 && readNode(value));
  fields(bytes, (field, value) => field === 7 && readGraph(value));
  return { operators, training };
}

const RANDOM = ['RandomNormal', 'RandomUniform', 'Bernoulli', 'Multinomial'];

/**
 * Tests of bfloat16 whose data are wrong: the first rounds towards zero, where ONNX rounds to the nearest; in the
 * others the tensor `like` has not the shape that the model declares.
 */
const WRONG_DATA = [
  'test_cast_FLOAT_to_BFLOAT16',
  'test_castlike_BFLOAT16_to_FLOAT',
  'test_castlike_BFLOAT16_to_FLOAT_expanded',
  'test_castlike_FLOAT_to_BFLOAT16',
  'test_castlike_FLOAT_to_BFLOAT16_expanded',
];

/** The reason why a test is out of scope, or ''. */
export function outOfScope(test) {
  if (WRONG_DATA.includes(test.name)) return 'wrong data';
  const { operators, training } = contents(
    new Uint8Array(readFileSync(path.join(test.folder, 'model.onnx'))),
  );
  const domains = [...operators].filter((name) => name.includes('::'));
  if (
    training ||
    domains.some((name) => name.includes('preview.training')) ||
    /^test_training_/.test(test.name)
  ) {
    return 'training';
  }
  if ([...operators].some((name) => RANDOM.some((one) => name.startsWith(one)))) return 'random';
  return '';
}

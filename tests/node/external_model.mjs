// A model of one Add whose constant w, three floats, lies in another file: just enough protobuf to write it. Field
// numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return [...bytes, value];
}
const text = (value) => [...new TextEncoder().encode(value)];
const number = (field, value) => [...varint(field * 8), ...varint(value)];
const bytes = (field, value) => [...varint(field * 8 + 2), ...varint(value.length), ...value];
const string = (field, value) => bytes(field, text(value));

/** The file; the floats lie at `offset` of the file `location`. */
export function externalModel(location, offset = 4) {
  const floats = 1;
  const type = bytes(2, bytes(1, [...number(1, floats), ...bytes(2, bytes(1, number(1, 3)))]));
  const entry = (key, value) => bytes(13, [...string(1, key), ...string(2, value)]);
  const weights = [
    ...number(1, 3),
    ...number(2, floats),
    ...string(8, 'w'),
    ...entry('location', location),
    ...entry('offset', `${offset}`),
    ...entry('length', '12'),
    ...number(14, 1),
  ];
  const node = [...string(1, 'x'), ...string(1, 'w'), ...string(2, 'y'), ...string(4, 'Add')];
  const graph = [
    ...bytes(1, node),
    ...string(2, 'g'),
    ...bytes(5, weights),
    ...bytes(11, [...string(1, 'x'), ...type]),
    ...bytes(12, [...string(1, 'y'), ...type]),
  ];
  return Uint8Array.from([...number(1, 7), ...bytes(7, graph), ...bytes(8, number(2, 13))]);
}

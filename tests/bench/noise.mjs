// Inputs for models of which nothing is known.

// Integers of more than eight bits are mostly indices, lengths and rates: small ones, not negative.
const small = (value) => Math.abs(Math.round(value)) % 8;
const TYPES = {
  float32: (values) => Float32Array.from(values),
  int8: (values) => Int8Array.from(values),
  uint8: (values) => Uint8Array.from(values),
  int32: (values) => Int32Array.from(values, small),
  int64: (values) => BigInt64Array.from(values, (value) => BigInt(small(value))),
  bool: (values) => Uint8Array.from(values, (value) => (value > 0 ? 1 : 0)),
};

/** Noise for every input of a model; its open dimensions are those of the list, by axis, or 1. */
export async function noiseFor(model, openDims) {
  const { InferenceSession, Tensor } = await import('requant');
  const session = await InferenceSession.create(model);
  const feeds = session.inputMetadata.map(({ name, type, shape }) => {
    const dims = shape.map((dim, axis) => (typeof dim === 'number' ? dim : (openDims[axis] ?? 1)));
    const count = dims.reduce((one, other) => one * other, 1);
    const values = Array.from({ length: count }, (_, at) => Math.sin(at * 12.9898) * 100);
    const data = TYPES[type]?.(values);
    if (data === undefined) throw new Error(`input ${name} is ${type}: no noise for that`);
    return [name, new Tensor(type, data, dims)];
  });
  await session.release();
  return Object.fromEntries(feeds);
}

// Inputs for models of which nothing is known.

// Integers of more than eight bits are mostly indices, lengths and rates, so they get small numbers that are
// not negative.
const small = (value) => Math.abs(Math.round(value)) % 8;
const same = (value) => value;
const TYPES = {
  float32: { of: same, from: (values) => Float32Array.from(values) },
  int8: { of: same, from: (values) => Int8Array.from(values) },
  uint8: { of: same, from: (values) => Uint8Array.from(values) },
  int32: { of: small, from: (values) => Int32Array.from(values) },
  int64: { of: small, from: (values) => BigInt64Array.from(values, BigInt) },
  bool: { of: (value) => (value > 0 ? 1 : 0), from: (values) => Uint8Array.from(values) },
};

/**
 * Makes noise for every input of a model.
 * @param openDims sizes of the open dimensions of the first input, by axis, or 1; other dimensions with the
 * same names get the same sizes
 * @param given values of inputs by name, for inputs that cannot be noise, such as a sampling rate
 */
export async function noiseFor(model, openDims, given = {}) {
  const { InferenceSession, Tensor } = await import('requant');
  const session = await InferenceSession.create(model);
  const named = {};
  const feeds = session.inputMetadata.map(({ name, type, shape }, input) => {
    const dims = shape.map((dim, axis) => {
      if (typeof dim === 'number') return dim;
      const size = named[dim] ?? (input === 0 ? openDims[axis] : undefined) ?? 1;
      if (dim !== null) named[dim] = size;
      return size;
    });
    const count = dims.reduce((one, other) => one * other, 1);
    const make = TYPES[type];
    if (make === undefined) throw new Error(`input ${name} is ${type}: no noise for that`);
    const { from, of } = make;
    const values = Array.from({ length: count }, (_, at) =>
      name in given ? given[name] : of(Math.sin(at * 12.9898) * 100),
    );
    return [name, new Tensor(type, from(values), dims)];
  });
  await session.release();
  return Object.fromEntries(feeds);
}

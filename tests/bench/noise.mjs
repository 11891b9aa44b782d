// Inputs for models of which nothing is known.

/** Noise for every input of a model; its open dimensions are those of the list, by axis, or 1. */
export async function noiseFor(model, openDims) {
  const { InferenceSession, Tensor } = await import('requant');
  const session = await InferenceSession.create(model);
  const feeds = session.inputMetadata.map(({ name, type, shape }) => {
    const dims = shape.map((dim, axis) => (typeof dim === 'number' ? dim : (openDims[axis] ?? 1)));
    const count = dims.reduce((one, other) => one * other, 1);
    const values = Array.from({ length: count }, (_, at) => Math.sin(at * 12.9898) * 100);
    const data = { float32: Float32Array, int8: Int8Array, uint8: Uint8Array }[type].from(values);
    return [name, new Tensor(type, data, dims)];
  });
  await session.release();
  return Object.fromEntries(feeds);
}

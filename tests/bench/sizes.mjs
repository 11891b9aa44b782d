// Bytes of networks of 8, 4, 2 and 1 bits: of their files, and of the weights in memory.
//
//   node tests/bench/sizes.mjs [NETWORK ...] [--forms w4a4,w2a2,w1a1,...] [--json]
//
// "file": QDQ with ONNX's int4 and int2, one bit by packWeights(). The first and the last layer keep 8 bits,
// and "inner" leaves them out: it counts the bytes of all other layers, scales and biases included.

import { chosenForms, chosenNetworks, readArguments } from './arguments.mjs';
import { LOW_BITS, bytesOf, inputOf, makeNetworks } from './networks.mjs';

const standards = { forms: 'w4a4,w2a2,w1a1', json: false };
const { json, names, forms } = readArguments(standards, (values) => ({
  ...values,
  names: chosenNetworks(values.words),
  forms: chosenForms(values.forms),
}));
const { InferenceSession, Tensor, loadModel, packWeights } = await import('requant');
const { table } = await import('requant/report');
await makeNetworks(names, forms);

/** Bytes of the first and the last layer's weights, which have 8 bits in every form. */
function edgesOf(model) {
  const text = model.toText({ maxConstantElements: 0 });
  const shapes = [...text.matchAll(/^const %\S+: u?int8\[(\d+(?:, \d+)+)\]/gm)].map(([, dims]) =>
    dims.split(', ').map(Number),
  );
  return shapes
    .filter((dims) => dims.length === 2 || dims[1] === 3)
    .reduce((sum, dims) => sum + dims.reduce((one, other) => one * other), 0);
}

async function sizesOf(name, form) {
  const { data, dims } = inputOf(name);
  const feeds = { input: new Tensor('float32', data, dims) };
  const bits = form === 'int8' ? 8 : LOW_BITS[form][0];
  const model = await loadModel(bytesOf(name, form === 'int8' ? 'qdq' : form));
  const edges = edgesOf(model);
  const packed = bits === 1 ? await packWeights(model) : undefined;
  const file = (packed ?? model).toOnnx().length;
  const session = await InferenceSession.create(packed ?? model, {
    requantize: 'fixed',
    compact: true,
  });
  await session.run(feeds);
  const { memory } = session.plan();
  const plan = session.toPlan().length;
  await session.release();
  for (const one of [packed, model]) one?.dispose();
  return { form, bits, file, plan, edges, weights: memory.packedWeights };
}

const networks = [];
for (const name of names) {
  const rows = [];
  for (const form of ['int8', ...forms]) rows.push(await sizesOf(name, form));
  networks.push({ network: name, rows });
  if (json) continue;
  const [int8] = rows;
  const share = (bytes, all) => `${(bytes / 1e3).toFixed(0)} (${(bytes / all).toFixed(3)})`;
  console.log(`\n${name}, kB (of int8's)`);
  console.log(
    table(
      ['', 'file', 'inner', 'weights in memory', 'inner', 'saved plan'],
      rows.map(({ form, file, weights, plan, edges }) => [
        form,
        share(file, int8.file),
        share(file - edges, int8.file - edges),
        share(weights, int8.weights),
        share(weights - edges, int8.weights - edges),
        share(plan, int8.plan),
      ]),
    ),
  );
}
if (json) console.log(JSON.stringify({ networks }, null, 2));

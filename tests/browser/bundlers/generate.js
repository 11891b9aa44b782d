// Generates C from a model: a check for pages and processes beside those of checks.js.

import { generateC, loadModel } from 'requant';

export async function generate(read) {
  const model = await loadModel(await read('int8.onnx'));
  const { source } = await generateC(model, { shapes: { image: [1, 1, 28, 28] } });
  return { functions: source.includes('void model_run('), bytes: source.length };
}

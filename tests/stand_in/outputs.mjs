// Some of the outputs, outputs to fill (which onnxruntime-web returns but leaves as they were), options of runs, and
// outputs of one session as feeds of the next.

import * as ort from 'onnxruntime-web';

export async function main({ twoOutputs }) {
  const session = await ort.InferenceSession.create(twoOutputs);
  const x = new ort.Tensor('float32', Float32Array.from([1, -2, 3, -4]), [2, 2]);
  const all = await session.run({ x });
  const one = await session.run({ x }, ['negated']);
  const target = new ort.Tensor('float32', new Float32Array(4), [2, 2]);
  const filled = await session.run(
    { x },
    { positive: target },
    { tag: 'filled', logSeverityLevel: 2 },
  );
  const mixed = await session.run({ x }, { positive: target, negated: null });
  const optionsOnly = await session.run({ x }, { tag: 'all', terminate: false });
  const again = await session.run({ x: all.negated });
  await session.release();
  const names = (outputs) => Object.keys(outputs).sort();
  return {
    names: [all, one, filled, mixed, optionsOnly].map(names),
    negated: mixed.negated.data,
    again: again.positive.data,
  };
}

// Runs single rows through a perceptron of 784, three times 1024 and 10 numbers with random weights: the gain
// by the widths of weights and activations, and by tune().
//
//   node tests/bench/perceptron.mjs [--forms w4a4,w2a8,...] [--budget MS] [--rounds N] [--json]
//
// A session without tuning and one with the records of tune() take turns, with several hundred runs in a
// round.

import { readArguments } from './arguments.mjs';
import { LOW_BITS, formatRatio, formatTimes, ratios, spread, takeTurns } from './networks.mjs';
import { uniform } from './numbers.js';

const WIDTHS = [784, 1024, 1024, 1024, 10];
const FORMS = { ...LOW_BITS, w3a3: [3, 3], int8: [8, 8] };

const standards = {
  forms: 'w2a2,w2a4,w4a4,w3a3,w2a8,w4a8,int8',
  budget: 4000,
  rounds: 31,
  json: false,
};
const { forms, budget, rounds, json } = readArguments(standards);
const { InferenceSession, Tensor, parseModel, quantize, tune } = await import('requant');

function textOfModel() {
  const lines = ['graph "perceptron" opset 17', `input %x0: float32[1, ${WIDTHS[0]}]`];
  for (let layer = 0; layer + 1 < WIDTHS.length; layer++) {
    const [k, n] = WIDTHS.slice(layer, layer + 2);
    const weights = Array.from(uniform(k * n, layer + 1), (x) => (x / Math.sqrt(k)).toFixed(4));
    lines.push(`const %w${layer}: float32[${k}, ${n}] = {${weights.join(', ')}}`);
    lines.push(`%h${layer} = MatMul(%x${layer}, %w${layer})`);
    const isLast = layer + 2 === WIDTHS.length;
    lines.push(isLast ? `output %h${layer}` : `%x${layer + 1} = Relu(%h${layer})`);
  }
  return `${lines.join('\n')}\n`;
}

const feeds = (seed) => ({
  x0: new Tensor('float32', uniform(WIDTHS[0], seed), [1, WIDTHS[0]]),
});
const model = await parseModel(textOfModel());
const report = [];
for (const form of forms.split(',')) {
  if (!(form in FORMS)) throw new Error(`no form ${form} (${Object.keys(FORMS).join(', ')})`);
  const [weights, activations] = FORMS[form];
  const quantized = await quantize(model, {
    calibration: [11, 12, 13, 14].map(feeds),
    config: { recover: [], weights: { bits: weights }, activations: { bits: activations } },
  });
  const input = feeds(15);
  const { tuning, steps } = await tune(quantized, { feeds: input, budget });
  const rows = [];
  for (const options of [{}, { tuning }]) {
    const session = await InferenceSession.create(quantized, options);
    rows.push({ session, run: () => session.run(input), times: [] });
  }
  await takeTurns(rows, rounds, { roundMs: 10, warmUpMs: 500 });
  for (const { session } of rows) await session.release();
  quantized.dispose();
  const [usual, tuned] = rows.map(({ times }) => times);
  report.push({
    form,
    usual: spread(usual),
    tuned: spread(tuned),
    faster: ratios(usual, tuned),
    kernels: steps.map(({ before, kernel }) =>
      before === kernel ? kernel : `${before} -> ${kernel}`,
    ),
  });
  if (json) continue;
  const { usual: before, tuned: after, faster, kernels } = report.at(-1);
  console.log(
    `${form}: ${formatTimes(before)} -> ${formatTimes(after)} ms, ${formatRatio(faster)}; ${kernels.join(', ')}`,
  );
}
model.dispose();
if (json) console.log(JSON.stringify({ rounds, budget, report }, null, 2));

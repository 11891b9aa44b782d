// Weights of 7 bits where the outputs lose little (the option narrowWeights): how many layers get them, what test images lose,
// and how much faster the network runs. Sessions take turns. Prints Markdown.
//
//   node --no-enable-avx-vnni tests/bench/narrow_weights.mjs [NETWORK ...] [--most 0.3,1] [--images N] [--rounds N]
//
// Networks are those of ../shared/models, all by default. The flag of a newer Node makes the processor one that does not
// multiply whole bytes.

import { parseArgs } from 'node:util';
import { InferenceSession, loadModel, quantize } from 'requant';
import { feedsOf } from 'requant/dataset';
import { dataOf, modelPath, networks } from '../node/shared_models.mjs';
import { part } from './answers.mjs';

const { values, positionals } = parseArgs({
  options: {
    most: { type: 'string', default: '0.3,1' },
    images: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '31' },
  },
  allowPositionals: true,
});
const images = Number(values.images);
const rounds = Number(values.rounds);
const quantile = (numbers, share) =>
  numbers.toSorted((a, b) => a - b)[Math.floor(share * (numbers.length - 1))].toFixed(2);

async function outputsOf(session, samples) {
  const outputs = [];
  for await (const feeds of feedsOf(samples)) {
    outputs.push(Object.values(await session.run(feeds))[0].data);
  }
  return outputs;
}

function decibels(wanted, got) {
  let signal = 0;
  let noise = 0;
  wanted.forEach((output, at) =>
    output.forEach((x, i) => {
      signal += x * x;
      noise += (x - got[at][i]) ** 2;
    }),
  );
  return 10 * Math.log10(signal / noise);
}

console.log('| network | `narrowWeights` | layers with 7 bits | lost in test | times as fast |');
console.log('| --- | ---: | ---: | ---: | ---: |');
for (const network of networks) {
  if (positionals.length > 0 && !positionals.includes(network.name)) continue;
  const { calibration, test } = dataOf(network);
  const model = await loadModel(modelPath(network.name));
  const tests = part(test, 0, images);
  const float = await InferenceSession.create(model);
  const wanted = await outputsOf(float, tests);
  await float.release();
  let feeds;
  for await (feeds of feedsOf(part(calibration, 0, 1)));
  const contenders = [];
  for (const narrowWeights of [0, ...values.most.split(',').map(Number)]) {
    const quantized = await quantize(model, {
      calibration: feedsOf(part(calibration, 0, images)),
      config: { narrowWeights },
    });
    const line = quantized.config.recovery.find(({ method }) => method === 'narrow_weights');
    const session = await InferenceSession.create(quantized);
    const snr = decibels(wanted, await outputsOf(session, tests));
    const layers = line?.detail.match(/weights of (\d+ of \d+)/)?.[1] ?? 'none';
    contenders.push({ narrowWeights, layers, session, snr, times: [] });
  }
  for (let round = 0; round < rounds; round++) {
    for (let at = 0; at < contenders.length; at++) {
      const { session, times } = contenders[(at + round) % contenders.length];
      const start = performance.now();
      for (let run = 0; run < 3; run++) await session.run(feeds);
      times.push(performance.now() - start);
    }
  }
  const [wide, ...others] = contenders;
  for (const { narrowWeights, layers, snr, times } of others) {
    const ratios = times.map((time, round) => wide.times[round] / time);
    console.log(
      `| ${network.name} | ${narrowWeights} | ${layers} | ${(wide.snr - snr).toFixed(2)} | ` +
        `${quantile(ratios, 0.5)} [${quantile(ratios, 0.25)}-${quantile(ratios, 0.75)}] |`,
    );
  }
  for (const { session } of contenders) await session.release();
  model.dispose();
}

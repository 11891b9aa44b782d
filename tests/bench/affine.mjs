// Times runs with affine weights: sessions with symmetric and affine weights take turns in one process.
//
//   node tests/bench/affine.mjs [NETWORK ...] [--rounds N] [--runs N]
//
// Networks are those of ../shared/models, resnet20_cifar10 and mobilenet_v1_025_224 by default. Prints the
// median ms of a run, the median ratio to symmetric weights per channel within a round, and the kernels.

import { parseArgs } from 'node:util';
import { InferenceSession, loadModel, quantize } from 'requant';
import { feedsOf, take } from 'requant/dataset';
import { dataOf, modelPath, networks } from '../node/shared_models.mjs';

const { values, positionals } = parseArgs({
  options: {
    rounds: { type: 'string', default: '30' },
    runs: { type: 'string', default: '10' },
  },
  allowPositionals: true,
});
const FORMS = {
  'symmetric, per channel': {},
  'affine, per channel': { symmetric: false },
  'affine, per tensor': { symmetric: false, perChannel: false },
  'affine, per channel, 4 bits': { symmetric: false, bits: 4 },
};
const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

for (const name of positionals.length
  ? positionals
  : ['resnet20_cifar10', 'mobilenet_v1_025_224']) {
  const { calibration } = dataOf(networks.find((network) => network.name === name));
  const model = await loadModel(modelPath(name));
  let feeds;
  for await (feeds of feedsOf(take(calibration, 1)));
  const contenders = [];
  for (const [form, weights] of Object.entries(FORMS)) {
    const quantized = await quantize(model, {
      calibration: feedsOf(take(calibration, 32)),
      config: { weights, recover: ['round_weights', 'bias_correction'] },
    });
    const session = await InferenceSession.create(quantized);
    contenders.push({ form, session, times: [] });
  }
  for (let round = 0; round < Number(values.rounds); round++) {
    for (let at = 0; at < contenders.length; at++) {
      const { session, times } = contenders[(at + round) % contenders.length];
      const start = performance.now();
      for (let run = 0; run < Number(values.runs); run++) await session.run(feeds);
      times.push((performance.now() - start) / Number(values.runs));
    }
  }
  for (const { form, session, times } of contenders) {
    const ratios = times.map((time, round) => time / contenders[0].times[round]);
    const kernels = {};
    for (const { kernel } of session.plan().steps) kernels[kernel] = (kernels[kernel] ?? 0) + 1;
    const products = Object.entries(kernels).filter(([kernel]) => /conv|reference/.test(kernel));
    console.log(
      `${name}, ${form}: ${median(times).toFixed(2)} ms, ${median(ratios).toFixed(2)} times; ` +
        products.map(([kernel, count]) => `${count} ${kernel}`).join(', '),
    );
  }
}

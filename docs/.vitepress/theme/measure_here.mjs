// A small benchmark on the reader's device: float and fewer bits, in turns. The file loads only when it is asked for.

import { InferenceSession, Tensor, parseModel, quantize } from 'requant';

const SECONDS = 6;
const ROUND_MS = 30;

/** Pseudo-random numbers in [-1, 1], Lehmer's generator. */
function numbers(count, seed) {
  let state = seed;
  return Float32Array.from(
    { length: count },
    () => ((state = (state * 48271) % 2147483647) / 2147483647) * 2 - 1,
  );
}

/** Layers of a network of pictures: 3x3, depthwise and 1x1 convolutions of 64 channels on 28 x 28 pixels. */
function layers() {
  const constant = (name, dims, seed) => {
    const size = dims.reduce((a, b) => a * b, 1);
    const values = Array.from(numbers(size, seed), (value) => (value / 8).toFixed(4));
    return `const %${name}: float32[${dims.join(', ')}] = {${values.join(', ')}}`;
  };
  return [
    'graph "layers" opset 17',
    'input %x: float32[1, 64, 28, 28]',
    constant('w1', [64, 64, 3, 3], 3),
    constant('w2', [64, 1, 3, 3], 4),
    constant('w3', [64, 64, 1, 1], 5),
    '%c1 = Conv(%x, %w1) {pads = [1, 1, 1, 1]}',
    '%r1 = Relu(%c1)',
    '%c2 = Conv(%r1, %w2) {pads = [1, 1, 1, 1], group = 64}',
    '%r2 = Relu(%c2)',
    '%y = Conv(%r2, %w3)',
    'output %y',
  ].join('\n');
}

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** Runs a session for some milliseconds; gives the milliseconds of a run. */
async function round(session, feeds) {
  const start = performance.now();
  let runs = 0;
  do {
    await session.run(feeds);
    runs++;
  } while (performance.now() - start < ROUND_MS);
  return (performance.now() - start) / runs;
}

/** Measures all sessions in turns; `say` gets words for the reader. */
export async function measureHere(say) {
  const model = await parseModel(layers());
  const feeds = { x: new Tensor('float32', numbers(64 * 28 * 28, 6), [1, 64, 28, 28]) };
  const contenders = [
    { name: 'float', kind: 'float', session: await InferenceSession.create(model) },
  ];
  for (const [name, weights, activations] of [
    ['8 bits', 8, 8],
    ['W4A4', 4, 4],
    ['W2A2', 2, 2],
    ['W1A1', 1, 1],
  ]) {
    say(`Quantizing to ${name} …`);
    const config = {
      weights: { bits: weights },
      activations: { bits: activations },
      recover: [],
      floatOutputs: false,
    };
    const quantized = await quantize(model, { calibration: [feeds], config });
    contenders.push({ name, kind: 'own', session: await InferenceSession.create(quantized) });
    quantized.dispose();
  }
  const times = contenders.map(() => []);
  const start = performance.now();
  for (let turn = 0; performance.now() - start < SECONDS * 1000; turn++) {
    say(`Round ${turn + 1}, ${SECONDS} seconds in all …`);
    for (const [at, { session }] of contenders.entries()) {
      const time = await round(session, feeds);
      // JavaScript engines compile twice; the first rounds are warm-up.
      if (turn > 2) times[at].push(time);
      await new Promise((resolve) => setTimeout(resolve));
    }
  }
  const bars = contenders.map(({ name, kind, session }, at) => {
    session.dispose();
    const all = times[at];
    return { name, kind, value: median(all), least: Math.min(...all), most: Math.max(...all) };
  });
  model.dispose();
  const [float, bytes] = bars;
  const words = `8 bits are ${(float.value / bytes.value).toFixed(1)} times as fast as float here, median of ${times[0].length} rounds.`;
  return { bars, words };
}

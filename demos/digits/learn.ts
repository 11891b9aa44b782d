// A network of one bit for each weight and each value between layers, trained from drawings.

import { type Model, type QuantizedModel, Tensor, parseModel, quantize, train } from 'requant';
import { augmented, makeDataset } from 'requant/dataset';

/** A drawing has SIDE x SIDE pixels from 0 (paper) to 1 (ink). */
export const SIDE = 16;

/** A drawing and the digit that it shows. */
export interface Drawing {
  pixels: Float32Array;
  label: number;
}

export const feedsOf = (pixels: Float32Array) => ({
  image: new Tensor('float32', pixels, [1, 1, SIDE, SIDE]),
});

/** Output channels, input channels and strides of the convolutions. */
const LAYERS = [
  [24, 1, 1],
  [32, 24, 2],
  [32, 32, 2],
] as const;
const EPOCHS = 12;
const FEATURES = 32 * 4 * 4;

/** Three convolutions of 3 x 3 and a matrix product, as text. The weights are random (He et al., arXiv:1502.01852). */
function networkText(): string {
  const lines = ['graph "digits" opset 13', `input %image: float32[N, 1, ${SIDE}, ${SIDE}]`];
  const constant = (name: string, dims: number[], inputs: number) => {
    const size = dims.reduce((product, dim) => product * dim, 1);
    const bound = Math.sqrt(6 / inputs);
    const values = Array.from({ length: size }, () => ((2 * Math.random() - 1) * bound).toFixed(5));
    lines.push(`const %${name}: float32[${dims}] = {${values}}`);
  };
  let last = 'image';
  for (const [index, [outputs, inputs, stride]] of LAYERS.entries()) {
    constant(`w${index}`, [outputs, inputs, 3, 3], 9 * inputs);
    lines.push(
      `const %b${index}: float32[${outputs}] = {${Array(outputs).fill(0)}}`,
      `%c${index} = Conv(%${last}, %w${index}, %b${index}) {pads = [1, 1, 1, 1], strides = [${stride}, ${stride}]}`,
      `%r${index} = Relu(%c${index})`,
    );
    last = `r${index}`;
  }
  constant('w', [FEATURES, 10], FEATURES);
  lines.push(
    `const %b: float32[10] = {${Array(10).fill(0)}}`,
    `%flat = Flatten(%${last})`,
    '%scores = Gemm(%flat, %w, %b)',
    'output %scores',
  );
  return lines.join('\n');
}

/** One bit for weights and for the values between layers. */
const ONE_BIT = {
  weights: { bits: 1 },
  activations: { bits: 1 },
  // The drawing itself has 8 bits.
  operators: { 'Conv#0': { inputs: { 0: { bits: 8 } } } },
};

/** Gets the progress: a text, and a share from 0 to 1. */
export type Say = (text: string, share: number) => void;

/** Trains a new network in float, makes one bit of it, and trains that. The caller disposes of the results. */
export async function learn(
  drawings: readonly Drawing[],
  say: Say,
): Promise<{ float: Model; oneBit: QuantizedModel }> {
  const samples = drawings.map(({ pixels, label }) => ({ feeds: feedsOf(pixels), label }));
  // Every epoch sees the drawings several times, shifted at random.
  const count = samples.length * Math.max(1, Math.ceil(200 / samples.length));
  const many = makeDataset(count, (index) => samples[index % samples.length]!);
  const options = (text: string, before: number) => ({
    dataset: augmented(many, { flip: false, shift: 2 }),
    epochs: EPOCHS,
    batchSize: 16,
    keep: 'last' as const,
    onProgress: ({ epoch, done }: { epoch: number; done: number }) =>
      say(text, before + (epoch + done / count) / EPOCHS / 2),
  });

  const start = await parseModel(networkText());
  const float = await train(start, {
    ...options('Training in float', 0),
    optimizer: 'sgd',
    learningRate: 0.05,
  });
  start.dispose();
  const quantized = await quantize(float, {
    calibration: samples.map(({ feeds }) => feeds),
    config: ONE_BIT,
  });
  const oneBit = await train(quantized, {
    ...options('Training with one bit', 0.5),
    learningRate: 0.05,
  });
  quantized.dispose();
  return { float, oneBit };
}

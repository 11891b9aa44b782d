// The command `weights`: quantizes only weights, in blocks.

import { feedsOf } from '../dataset/sample.js';
import { sizeOfOnnx } from '../model/onnx_files.js';
import {
  type WeightsMethod,
  type WeightsOptions,
  type WeightsRotation,
  quantizeWeights,
} from '../quantize/weights.js';
import { oneLine } from '../report/format.js';
import { formatBytes } from '../report/index.js';
import {
  type CommandSpec,
  type Values,
  commonOptions,
  dataOptions,
  integer,
  oneOf,
  required,
  text,
  threadsOption,
} from './args.js';
import { openData } from './data.js';
import { loadFloat, writeOnnx } from './models.js';
import { Progress, type Streams } from './output.js';

export const weightsSpec: CommandSpec = {
  name: 'weights',
  summary: 'Quantize the weights of matrix products in blocks; activations stay float.',
  positionals: ['MODEL'],
  options: {
    output: { type: 'string', short: 'o', value: 'FILE', help: 'the quantized ONNX file' },
    format: { type: 'string', value: 'F', help: 'qdq (default) or matmulnbits' },
    bits: { type: 'string', value: 'N', help: 'of the weights: 2, 3, 4 (default) or 8' },
    'block-size': { type: 'string', value: 'N', help: 'weights that share a scale; default 32' },
    affine: { type: 'boolean', help: 'a zero point for each block' },
    method: { type: 'string', value: 'M', help: 'with --data: gptq (default), awq or awq_gptq' },
    rotate: {
      type: 'string',
      value: 'W',
      help: 'Hadamard rotations: auto (where better) or always',
    },
    'rotate-size': { type: 'string', value: 'N', help: 'their largest block; default 128' },
    ...dataOptions,
    ...threadsOption,
    ...commonOptions,
  },
  notes: 'Without --data weights round to nearest. With it the samples decide how they round.',
};

export async function runWeights(
  values: Values,
  [file]: string[],
  streams: Streams,
): Promise<void> {
  const output = required(values, 'output');
  const format = oneOf<'qdq' | 'matmulnbits'>(values, 'format', ['qdq', 'matmulnbits']) ?? 'qdq';
  const method = oneOf<WeightsMethod>(values, 'method', ['gptq', 'awq', 'awq_gptq']);
  const bits = (integer(values, 'bits', 2, 8) ?? 4) as NonNullable<WeightsOptions['bits']>;
  const blockSize = integer(values, 'block-size', 16) ?? 32;
  const rotate = oneOf<WeightsRotation>(values, 'rotate', ['auto', 'always']);
  const rotateSize = integer(values, 'rotate-size', 2, 1024);
  if (method !== undefined) required(values, 'data');
  using model = await loadFloat(file!, streams);
  const data =
    text(values, 'data') === undefined
      ? undefined
      : await openData(values, model, { targets: false });
  const progress = new Progress(streams);
  const start = performance.now();
  let made;
  try {
    made = await quantizeWeights(model, {
      bits,
      blockSize,
      format,
      symmetric: values['affine'] !== true,
      ...(data ? { calibration: feedsOf(data) } : {}),
      ...(method ? { method } : {}),
      ...(rotate ? { rotate } : {}),
      ...(rotateSize ? { rotateSize } : {}),
      onProgress: ({ phase, done, total }) =>
        progress.show(phase === 'calibrate' ? 'calibrating' : 'rounding', done, total),
    });
  } finally {
    progress.clear();
  }
  using quantized = made;
  const seconds = (performance.now() - start) / 1000;
  const bytes = await writeOnnx(output, quantized, streams);
  const floatBytes = sizeOfOnnx(model.handle).bytes;
  const { weightLayers: layers, floatOperators, warnings } = quantized;
  if (values['json']) {
    const json = { output, format, bits, seconds, bytes, floatBytes };
    streams.out(`${JSON.stringify({ ...json, layers, floatOperators, warnings }, null, 2)}\n`);
    return;
  }
  for (const warning of warnings) streams.err(`warning: ${oneLine(warning)}\n`);
  for (const { name, detail, before, after } of layers) {
    const error =
      before === undefined || after === undefined
        ? ''
        : `${before.toExponential(1)} -> ${after.toExponential(1)}, `;
    streams.out(`${oneLine(`${name}: ${error}${detail}`)}\n`);
  }
  streams.out(
    `wrote ${output}: ${formatBytes(bytes)} instead of ${formatBytes(floatBytes)} (${format})\n`,
  );
}

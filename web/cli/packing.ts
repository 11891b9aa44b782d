// The command `pack`: stores weights of two values in a bit each.

import { packWeights } from '../quantize/weights.js';
import { formatBytes } from '../report/index.js';
import { type CommandSpec, type Values, commonOptions, required } from './args.js';
import { load, write } from './models.js';
import type { Streams } from './output.js';

export const packSpec: CommandSpec = {
  name: 'pack',
  summary: 'Write weights of two values (-1 and 1) in a bit each.',
  positionals: ['MODEL'],
  options: {
    output: { type: 'string', short: 'o', value: 'FILE', help: 'the smaller ONNX file' },
    ...commonOptions,
  },
  notes:
    'ONNX has no type of one bit: such weights become bytes and the operators that unpack them ' +
    '(BitShift, Mod, Gather), which every engine evaluates when it loads the file. The results stay the same bits.',
};

export async function runPack(values: Values, [file]: string[], streams: Streams): Promise<void> {
  const output = required(values, 'output');
  using model = await load(file!, streams);
  const before = model.toOnnx().length;
  using packed = await packWeights(model);
  const bytes = packed.toOnnx();
  await write(output, bytes, streams);
  if (bytes.length >= before) {
    streams.err('warning: no weights have two values: nothing was packed\n');
  }
  streams.out(
    values['json']
      ? `${JSON.stringify({ output, before, bytes: bytes.length }, null, 2)}\n`
      : `wrote ${output} (${formatBytes(bytes.length)}, unpacked ${formatBytes(before)})\n`,
  );
}

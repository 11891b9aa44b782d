// Texts as samples: each line becomes tokens, by the tokenizer.json of the network.

import type { ModelInfo, Tensor } from 'requant';
import { StudioError } from '../watch/problems.js';
import type { GivenFile } from './files.js';
import type { Samples } from './samples.js';

const MOST_TOKENS = 128;
const MOST_LINES = 512;

/** The members of a tokenizer that this file uses. */
interface Encoder {
  encode(text: string): { ids: number[]; tokens: string[] };
}

async function json({ path, file }: GivenFile): Promise<object> {
  try {
    return JSON.parse(await file.text()) as object;
  } catch {
    throw new StudioError('The tokenizer cannot be read.', `${path} is no JSON`);
  }
}

async function encoderOf(files: readonly GivenFile[]): Promise<Encoder> {
  const named = (name: string) => files.find(({ path }) => path.split('/').at(-1) === name);
  const main = named('tokenizer.json');
  if (!main) {
    throw new StudioError(
      'The tokenizer is missing.',
      'Texts become numbers by the tokenizer.json that belongs to the network',
      'Drop tokenizer.json together with the texts',
    );
  }
  const config = named('tokenizer_config.json');
  const { Tokenizer } = await import('@huggingface/tokenizers');
  const [own, more] = [await json(main), config ? await json(config) : {}];
  try {
    return new Tokenizer(own, more);
  } catch (error) {
    throw new StudioError('The tokenizer cannot be read.', (error as Error).message);
  }
}

/** Samples of the lines of text files. Throws StudioError without a tokenizer, or without an input of tokens. */
export async function fromTexts(files: readonly GivenFile[], info: ModelInfo): Promise<Samples> {
  const { inputs } = info;
  const ids = inputs.find(({ name }) => /input_?ids|tokens/i.test(name)) ?? inputs[0]!;
  if (!/^u?int/.test(ids.type) || ids.dims.length > 2) {
    throw new StudioError(
      'Texts do not fit this model.',
      `Its input ${ids.name} takes no tokens`,
      'Bring .npy or .npz files with its inputs',
    );
  }
  const encoder = await encoderOf(files);
  const lines: string[] = [];
  for (const { path, file } of files) {
    if (!/\.txt$/i.test(path)) continue;
    lines.push(...(await file.text()).split(/\r?\n/).filter((line) => line.trim() !== ''));
  }
  const texts = lines.slice(0, MOST_LINES);
  const { Tensor: Made } = await import('requant');
  const last = ids.dims.at(-1);
  const encoded = texts.map((text) => {
    const { ids: codes, tokens } = encoder.encode(text);
    const most = typeof last === 'number' ? last : MOST_TOKENS;
    return { codes: codes.slice(0, most), tokens: tokens.slice(0, most) };
  });
  /** The numbers of one input. */
  const valuesOf = (name: string, codes: readonly number[], length: number): number[] => {
    const filled = (value: (at: number) => number) => Array.from({ length }, (_, at) => value(at));
    if (name === ids.name) return filled((at) => codes[at] ?? 0);
    if (/mask/i.test(name)) return filled((at) => Number(at < codes.length));
    if (/position/i.test(name)) return filled((at) => at);
    return filled(() => 0);
  };
  return {
    kind: 'arrays',
    title: `${texts.length} ${texts.length === 1 ? 'line' : 'lines'} of text`,
    count: texts.length,
    nameOf: (index) => texts[index]!.slice(0, 60),
    feeds: (index) => {
      const { codes } = encoded[index]!;
      const length = typeof last === 'number' ? last : codes.length;
      const feeds = inputs.map(({ name, type, dims }) => {
        const values = valuesOf(name, codes, length);
        const wide = type === 'int64' || type === 'uint64';
        const data = wide ? values.map(BigInt) : values;
        const shape = dims.length === 1 ? [length] : [1, length];
        return [name, new Made(type, data, shape) as Tensor] as const;
      });
      return Promise.resolve(Object.fromEntries(feeds));
    },
    text: (index) => ({ text: texts[index]!, tokens: encoded[index]!.tokens }),
  };
}

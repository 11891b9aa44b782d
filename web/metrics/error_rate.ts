import { invalidArgument, show } from '../base/errors.js';
import {
  type Meter,
  type MetricSample,
  type Outputs,
  badTarget,
  largest,
  numbersOf,
  outputOf,
  rightOf,
} from './metric.js';

/** Makes a text of the outputs for one sample. */
export type DecodeText = (outputs: Outputs, sample: MetricSample) => string | Promise<string>;

/**
 * Reads scores [1, steps, tokens] as connectionist temporal classification does greedily: the token of the
 * highest score in each step, repetitions as one, without the token `blank` (Graves et al., Connectionist
 * Temporal Classification, ICML 2006, section 3.2, "best path decoding").
 */
export function decodeCtc(
  vocabulary: readonly string[],
  blank: number,
  output: string | undefined,
): DecodeText {
  return (outputs) => {
    const tensor = outputOf(outputs, output);
    const tokens = tensor.dims.at(-1) ?? 0;
    if (tokens !== vocabulary.length) {
      throw invalidArgument(
        `the vocabulary has ${vocabulary.length} tokens, the output ${tokens}`,
        'vocabulary',
        'It must have as many tokens as the last axis of the output.',
      );
    }
    const scores = numbersOf(tensor);
    let [text, last] = ['', -1];
    for (let start = 0; start < scores.length; start += tokens) {
      const best = largest(scores, start, tokens);
      if (best !== last && best !== blank) text += vocabulary[best]!;
      last = best;
    }
    return text;
  };
}

/**
 * The least number of insertions, deletions and substitutions that make one list of the other (Levenshtein,
 * Soviet Physics Doklady 1966; Wagner, Fischer, JACM 1974).
 */
function edits(from: readonly string[], to: readonly string[]): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  from.forEach((item, index) => {
    const next = [index + 1];
    to.forEach((other, at) => {
      const replaced = row[at]! + (item === other ? 0 : 1);
      next.push(Math.min(replaced, row[at + 1]! + 1, next[at]! + 1));
    });
    row = next;
  });
  return row[to.length]!;
}

const parts = {
  wer: (text: string) => text.split(/\s+/).filter(Boolean),
  cer: (text: string) => [...text],
};

/**
 * Word and character error rate: edits divided by the words or characters of the right texts, over all samples
 * (Morris, Maier, Green, From WER and RIL to MER and WIL, Interspeech 2004, equation 1). It may exceed 1. The
 * target is a text. Letters are compared as they are, and words are what stands between white space.
 */
export function errorRate(kind: keyof typeof parts, decode: DecodeText): Meter {
  let [changed, total] = [0, 0];
  return {
    async add(outputs, sample) {
      const right = rightOf(sample);
      if (typeof right !== 'string') throw badTarget(kind, sample, 'a text');
      const text: unknown = await decode(outputs, sample);
      if (typeof text !== 'string') {
        throw invalidArgument(`decode gave ${show(text)}`, 'decode', 'It must give a text.');
      }
      const wanted = parts[kind](right);
      changed += edits(parts[kind](text), wanted);
      total += wanted.length;
    },
    value: () => changed / total,
  };
}

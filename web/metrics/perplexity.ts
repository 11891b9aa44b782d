import { type Meter, Mean, badTarget, numbersIn, numbersOf, outputOf } from './metric.js';

/**
 * Perplexity of a language model: e to the mean cross entropy of the right tokens (Jelinek et al., Perplexity, a
 * Measure of the Difficulty of Speech Recognition Tasks, JASA 1977; Jurafsky, Martin, Speech and Language
 * Processing, section 3.3), over all tokens of all samples.
 *
 * The output has logits [1, steps, tokens]. The target has the right token of each step, and negative numbers
 * where none counts. Without a target each step of a causal model predicts the next token of the feed `input`.
 */
export function perplexity(output: string | undefined, input: string): Meter {
  const mean = new Mean();
  return {
    add(outputs, sample) {
      const tensor = outputOf(outputs, output);
      const tokens = tensor.dims.at(-1) ?? 0;
      const logits = numbersOf(tensor);
      const steps = tokens > 0 ? logits.length / tokens : 0;
      const given = numbersIn(sample.target);
      const fed = given ? undefined : numbersIn(sample.feeds[input]);
      const right = given ?? (fed && [...Array.from(fed).slice(1), -1]);
      const whole = (token: number) => Number.isInteger(token) && token < tokens;
      if (right?.length !== steps || !Array.from(right).every(whole)) {
        throw badTarget(
          'perplexity',
          sample,
          `${steps} tokens below ${tokens}, or missing beside the feed "${input}" of so many tokens`,
        );
      }
      for (let step = 0; step < steps; step++) {
        const token = right[step]!;
        if (token < 0) continue;
        const start = step * tokens;
        let most = -Infinity;
        for (let at = 0; at < tokens; at++) most = Math.max(most, logits[start + at]!);
        let sum = 0;
        for (let at = 0; at < tokens; at++) sum += Math.exp(logits[start + at]! - most);
        mean.add(Math.log(sum) + most - logits[start + token]!);
      }
    },
    value: () => Math.exp(mean.value()),
  };
}

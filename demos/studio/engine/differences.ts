// How far outputs of the quantized network are from those of the float network, over all samples.

import type { CompareReport, OutputDifference, Tensor } from 'requant';
import { StudioError } from '../watch/problems.js';

/** Adds up the difference of one output. */
class Difference {
  #power = 0;
  #noise = 0;
  #product = 0;
  #other = 0;
  #maxAbs = 0;
  #sumAbs = 0;
  #count = 0;
  #least = Infinity;
  #most = -Infinity;

  add(float: ArrayLike<number>, quantized: ArrayLike<number>): void {
    for (let at = 0; at < float.length; at++) {
      const [a, b] = [float[at]!, quantized[at]!];
      const error = Math.abs(a - b);
      this.#power += a * a;
      this.#other += b * b;
      this.#product += a * b;
      this.#noise += error * error;
      this.#sumAbs += error;
      if (error > this.#maxAbs) this.#maxAbs = error;
      if (a < this.#least) this.#least = a;
      if (a > this.#most) this.#most = a;
    }
    this.#count += float.length;
  }

  get isFinite(): boolean {
    return Number.isFinite(this.#sumAbs);
  }

  result(name: string): OutputDifference {
    const norm = Math.sqrt(this.#power * this.#other);
    const ratio = 10 * Math.log10(this.#power / this.#noise);
    return {
      name,
      snr: this.#noise === 0 ? null : ratio,
      cosine: norm === 0 ? Number(this.#power === this.#other) : this.#product / norm,
      maxAbs: this.#maxAbs,
      meanAbs: this.#count === 0 ? 0 : this.#sumAbs / this.#count,
      range: this.#most - this.#least,
    };
  }
}

/** The class with the highest score; of one share alone, which of two classes it means. */
const indexOfMost = (values: ArrayLike<number>): number => {
  if (values.length === 1) return Number(values[0]! > 0.5);
  let most = 0;
  for (let at = 1; at < values.length; at++) if (values[at]! > values[most]!) most = at;
  return most;
};

/** The rows of {@link CompareReport} that follow from outputs alone. */
export class Differences {
  readonly #outputs = new Map<string, Difference>();
  #samples = 0;
  #labelled = 0;
  #floatRight = 0;
  #right = 0;
  #agreeing = 0;

  /** Adds a sample, whose outputs must be finite. */
  add(
    float: Readonly<Record<string, Tensor>>,
    quantized: Readonly<Record<string, Tensor>>,
    sample: string,
    label: number | undefined,
  ): void {
    const names = Object.keys(float);
    for (const name of names) {
      const difference = this.#outputs.get(name) ?? new Difference();
      this.#outputs.set(name, difference);
      difference.add(float[name]!.toFloat32(), quantized[name]!.toFloat32());
      if (difference.isFinite) continue;
      throw new StudioError(
        'A sample has no answer.',
        `The output ${name} of ${sample} is infinite or no number`,
        'Remove the sample, or change how it becomes an input',
      );
    }
    const [first] = names;
    const [own, other] = [float, quantized].map((one) => indexOfMost(one[first!]!.toFloat32()));
    this.#samples += 1;
    this.#agreeing += Number(own === other);
    if (label === undefined) return;
    this.#labelled += 1;
    this.#floatRight += Number(own === label);
    this.#right += Number(other === label);
  }

  result(): Pick<CompareReport, 'samples' | 'labelled' | 'outputs' | 'top1'> {
    const labelled = this.#labelled;
    const share = (count: number, of: number) => (of === 0 ? null : count / of);
    return {
      samples: this.#samples,
      labelled,
      outputs: [...this.#outputs].map(([name, one]) => one.result(name)),
      top1: {
        float: share(this.#floatRight, labelled),
        candidate: share(this.#right, labelled),
        agreement: share(this.#agreeing, this.#samples),
      },
    };
  }
}

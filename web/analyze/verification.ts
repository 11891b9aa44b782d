// The outputs of two engines and of the float model, counted element by element.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { toNumbers } from '../base/half.js';
import type { Tensor } from '../base/tensor.js';

/** A tensor of any engine: elements and dimensions. */
export interface EngineTensor {
  /** The element type, where the array does not tell it: 'float16' for half floats in a Uint16Array. */
  readonly type?: string;
  readonly data: ArrayLike<number | bigint | string>;
  readonly dims: readonly number[];
}

/** Runs the file that another engine has loaded: feeds in, outputs by name out. */
export type EngineRun = (
  feeds: Readonly<Record<string, Tensor>>,
) => Readonly<Record<string, EngineTensor>> | Promise<Readonly<Record<string, EngineTensor>>>;

/** How similar two of the three results are. */
export interface Likeness {
  /** Signal to noise ratio in dB; null: no difference; -Infinity: a difference from zeros. */
  snr: number | null;
  /** Largest difference of an element. */
  maxAbs: number;
  /** Share of samples, in [0, 1], whose first output has its largest element at the same index. */
  sameTop1: number;
}

/** One output in both engines. */
export interface VerifiedOutput {
  name: string;
  /** Number of elements over all samples. */
  elements: number;
  /** Number of elements that are equal in both engines. */
  same: number;
  /** Signal to noise ratio in dB of one engine against the other; null: no difference. */
  snr: number | null;
  maxAbs: number;
}

/** The element of a sample on which the engines differ most. */
export interface WorstSample {
  /** Number of the sample, from 0. */
  sample: number;
  output: string;
  /** Index of the element, in row-major order. */
  index: number;
  /** The element in the float model, in the quantized model here, and in that of the other engine. */
  float: number;
  requant: number;
  engine: number;
  /** Indices of the largest elements of the first output, in the same order. */
  top1: [number, number, number];
}

/** A quantized model in two engines, beside its float original. */
export interface VerifyReport {
  samples: number;
  /** Number of samples whose outputs are all equal, element by element, in both engines. */
  sameSamples: number;
  outputs: VerifiedOutput[];
  /** Over all outputs: the engines against each other, and each against the float model here. */
  engines: Likeness;
  requant: Likeness;
  engine: Likeness;
  /** Samples with differences, the largest first. */
  worst: WorstSample[];
  /**
   * Operators that compute in float here and precede integer operators. The last bit of such a float may
   * differ between engines, which moves a code by one where the value lies between two codes.
   */
  floatOperators: string[];
}

/** The difference between two sequences of numbers, the first of which is the reference. */
class Difference {
  #signal = 0;
  #noise = 0;
  #same = 0;
  #samples = 0;
  maxAbs = 0;

  add(right: number, other: number): void {
    if (Object.is(right, other) || right === other) {
      if (Number.isFinite(right)) this.#signal += right * right;
      return;
    }
    const difference = Math.abs(right - other);
    this.maxAbs = Math.max(this.maxAbs, Number.isNaN(difference) ? Infinity : difference);
    this.#signal += Number.isFinite(right) ? right * right : 0;
    this.#noise += Number.isNaN(difference) ? Infinity : difference * difference;
  }

  addTop1(same: boolean): void {
    this.#samples += 1;
    this.#same += Number(same);
  }

  get snr(): number | null {
    if (this.#noise === 0) return null;
    return this.#signal === 0 ? -Infinity : 10 * Math.log10(this.#signal / this.#noise);
  }

  likeness(): Likeness {
    return { snr: this.snr, maxAbs: this.maxAbs, sameTop1: this.#same / this.#samples };
  }
}

interface OutputDifference {
  name: string;
  elements: number;
  same: number;
  difference: Difference;
}

/** Index of the largest element: the first of several, -1 without elements. */
function top1(values: ArrayLike<number>): number {
  let best = -1;
  for (let i = 0; i < values.length; ++i) {
    if (best < 0 || values[i]! > values[best]!) best = i;
  }
  return best;
}

function numbersOf({ type, data }: EngineTensor): number[] {
  return type === 'float16' && data instanceof Uint16Array
    ? Array.from(toNumbers(type, data))
    : Array.from(data, Number);
}

/** The engine's values of an output; throws INVALID_ARGUMENT for one that is missing or has other dims. */
function engineValues(
  outputs: Readonly<Record<string, EngineTensor>>,
  name: string,
  expected: Tensor,
): ArrayLike<number> {
  const given = outputs?.[name];
  if (typeof given !== 'object' || given === null || !('data' in given)) {
    const names = typeof outputs === 'object' && outputs !== null ? Object.keys(outputs) : [];
    throw invalidArgument(
      `the engine gave ${show(given)} as output "${name}"`,
      name,
      `It gave: ${names.join(', ') || 'nothing'}. It must run the same file.`,
    );
  }
  const { data, dims } = given;
  const same =
    dims.length === expected.dims.length && dims.every((dim, i) => dim === expected.dims[i]);
  if (!same || data.length !== expected.data.length) {
    throw new RequantError(
      'SHAPE_MISMATCH',
      `output "${name}" is [${expected.dims.join(', ')}] here and [${dims.join(', ')}] with ${data.length} elements in the engine`,
      { value: name },
    );
  }
  return numbersOf(given);
}

export class Verification {
  readonly #outputs = new Map<string, OutputDifference>();
  readonly #engines = new Difference();
  readonly #requant = new Difference();
  readonly #engine = new Difference();
  readonly #worst: (WorstSample & { difference: number })[] = [];
  #samples = 0;
  #sameSamples = 0;

  constructor(private readonly most: number) {}

  add(
    float: Readonly<Record<string, Tensor>>,
    here: Readonly<Record<string, Tensor>>,
    there: Readonly<Record<string, EngineTensor>>,
  ): void {
    let worst: (WorstSample & { difference: number }) | undefined;
    let best: [number, number, number] | undefined;
    for (const [name, tensor] of Object.entries(here)) {
      if (tensor.type === 'string') continue; // has no numbers to compare
      const right = float[name];
      if (!right || right.data.length !== tensor.data.length) {
        throw new RequantError(
          'SHAPE_MISMATCH',
          `output "${name}" of the quantized model is ${right ? `[${right.dims.join(', ')}]` : 'none'} in the float model, not [${tensor.dims.join(', ')}]`,
          { value: name },
        );
      }
      const a = numbersOf(right);
      const b = numbersOf(tensor);
      const c = engineValues(there, name, tensor);
      best ??= [top1(a), top1(b), top1(c)];
      const output = this.#outputs.get(name) ?? {
        name,
        elements: 0,
        same: 0,
        difference: new Difference(),
      };
      this.#outputs.set(name, output);
      for (let i = 0; i < b.length; ++i) {
        this.#requant.add(a[i]!, b[i]!);
        this.#engine.add(a[i]!, c[i]!);
        this.#engines.add(c[i]!, b[i]!);
        output.difference.add(c[i]!, b[i]!);
        output.elements += 1;
        if (Object.is(b[i], c[i]) || b[i] === c[i]) {
          output.same += 1;
          continue;
        }
        const difference = Math.abs(b[i]! - c[i]!);
        const size = Number.isNaN(difference) ? Infinity : difference;
        if (worst !== undefined && size <= worst.difference) continue;
        const values = { float: a[i]!, requant: b[i]!, engine: c[i]! };
        worst = {
          sample: this.#samples,
          output: name,
          index: i,
          ...values,
          top1: best,
          difference: size,
        };
      }
    }
    const [a, b, c] = best ?? [-1, -1, -1];
    this.#requant.addTop1(a === b);
    this.#engine.addTop1(a === c);
    this.#engines.addTop1(b === c);
    this.#samples += 1;
    if (worst === undefined) {
      this.#sameSamples += 1;
      return;
    }
    this.#worst.push(worst);
    this.#worst.sort((x, y) => (x.difference === y.difference ? 0 : y.difference - x.difference));
    this.#worst.length = Math.min(this.#worst.length, this.most);
  }

  report(floatOperators: string[]): VerifyReport {
    return {
      samples: this.#samples,
      sameSamples: this.#sameSamples,
      outputs: Array.from(this.#outputs.values(), ({ name, elements, same, difference }) => ({
        name,
        elements,
        same,
        snr: difference.snr,
        maxAbs: difference.maxAbs,
      })),
      engines: this.#engines.likeness(),
      requant: this.#requant.likeness(),
      engine: this.#engine.likeness(),
      worst: this.#worst.map(({ difference: _, ...sample }) => sample),
      floatOperators,
    };
  }
}

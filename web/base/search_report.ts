// The report of a search for a configuration, which results, errors and pages have.

/** Bits of weights and activations, such as 'W8A8' or 'W4A16'. */
export type BitFormat = `W${number}A${number}`;

/** One configuration that a search quantized and measured. */
export interface SearchAttempt {
  /** The bits of all operators but those of `raised`. */
  format: BitFormat;
  /** The row of the table of recoveries, from 'default' to 'block_reconstruction'. */
  recovery: string;
  /** Operators of other bits, or in float. */
  raised?: { to: BitFormat | 'float'; operators: string[] };
  /** The metric on the validation samples; NaN where `error` says why there is none. */
  value: number;
  /** Bytes of the ONNX file that `toOnnx({ int2: true })` makes, where bits are packed. */
  bytes: number;
  /** Median milliseconds of a run on the validation samples, on this machine. */
  ms: number;
  /** Seconds of quantizing and measuring. */
  seconds: number;
  /** Operators in float, of all operators. */
  floatOperators: number;
  /** Operators that read or write activations of more than 8 bits. */
  wideOperators: number;
  operators: number;
  meetsFloor: boolean;
  fitsBudget: boolean;
  /** Why this configuration is impossible for the model. */
  error?: string;
}

/** A point that no other attempt beats in both cost and value. */
export interface SearchPoint {
  /** Index in `attempts`. */
  attempt: number;
  cost: number;
  value: number;
}

/** All attempts of a search, in their order. */
export interface SearchReport {
  metric: { name: string; better: 'higher' | 'lower'; unit: 'share' | 'dB' | 'number' };
  /** Validation samples. */
  samples: number;
  /** The float model: its value, the bytes of its file, and median milliseconds of a run. */
  float: { value: number; bytes: number; ms: number };
  /** The worst value that is good enough; missing where only a budget was given. */
  floor?: number;
  budget: { bytes?: number; ms?: number };
  /** What the cheapest configuration has least of. */
  by: 'bytes' | 'ms';
  attempts: SearchAttempt[];
  /** Index of the chosen attempt, or of the best one where none is good enough; -1 where there is none at all. */
  best: number;
  /** Whether the best attempt meets the floor and fits the budget. */
  met: boolean;
  /** The best values by bytes and by milliseconds, from the cheapest on. */
  frontier: { bytes: SearchPoint[]; ms: SearchPoint[] };
  /** Seconds of the call, without those of a call that it went on from. */
  seconds: number;
}

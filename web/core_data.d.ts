// Types of the plain data that the core's functions take and give. There is no such module; core.d.ts has the
// functions.

/** Scales, zero points and codes. */
export interface CoreGrid {
  scale: number[];
  zeroPoint: number[];
  quantMin: number;
  quantMax: number;
}

/** What changes of one slot. An empty scale follows from the range, or from the weights. */
export interface CoreSlotEdit {
  node: string;
  output: boolean;
  slot: number;
  bits?: number;
  quantMin?: number;
  quantMax?: number;
  rangeMin?: number;
  rangeMax?: number;
  rounding?: string;
  policy?: string;
  state?: string;
  scale?: number[];
  offset?: number[];
}

export interface CoreBackend {
  /** Indices in the list of nodes. */
  takes: number[];
  composites: readonly CoreComposite[];
  maxOperators: number;
  minMacs: number;
  join: boolean;
}

/** Operators that a backend runs as one. */
export interface CoreComposite {
  /** Index of the pattern. */
  pattern: number;
  /** Indices in the list of nodes, ascending. */
  nodes: readonly number[];
}

/** How weights become blocks; `feedback` and `scale` are for calibration. */
export interface CoreWeightsOptions {
  bits: number;
  block: number;
  matMulNBits: boolean;
  int8Activations: boolean;
  /** Bits of tables of rows; 0 for float. */
  embeddings: number;
  symmetric: boolean;
  feedback: boolean;
  scale: boolean;
  /** Whether inputs of products are rotated; '' for none. */
  rotate: '' | 'auto' | 'always';
  /** The largest block of a rotation. */
  rotateSize: number;
}

export interface CoreGeneratedC {
  source: string;
  header: string;
  workspaceBytes: number;
  constantBytes: number;
}

export interface CoreCompareOptions {
  requantize?: string;
  layerwise?: boolean;
  aloneSamples?: number;
  floatBytes?: number;
  candidateBytes?: number;
}

export interface CoreSampleResult {
  floatTop1: number;
  candidateTop1: number;
  floatMs: number;
  candidateMs: number;
}

/** What a file needs to be read. */
export interface CoreFileNeeds {
  /** The external file of each tensor that lies in one. */
  names: string[];
  /** Offset and size of each of them. */
  ranges: number[];
  functions: number[];
}

export interface CoreSessionOptions {
  requantize?: string;
  profile?: boolean;
  fuse?: boolean;
  optimize?: boolean;
  compact?: boolean;
  halfWeights?: 'auto' | 'keep' | 'widen';
  int8Activations?: boolean;
  kernels?: Record<string, string>;
  /** Kernels by the `tuning` of steps; those that do not fit are ignored. */
  tuned?: Record<
    string,
    { kernel: string; threads?: number; panel?: number; output?: 'bytes' | 'packed' }
  >;
  /** The largest number of threads; default all. */
  threads?: number;
  taps?: readonly string[];
  dimensions?: Readonly<Record<string, number>>; // sizes by the names of symbolic dimensions
  /** Hands the model over to the session. */
  consume?: boolean;
}

export interface CoreOperatorOptions {
  /** The type of an operator that is named, whose settings it starts from. */
  type?: string;
  quantize?: boolean;
  activations?: CoreTensorOptions;
  weights?: CoreTensorOptions;
  readonly [option: string]: unknown;
}

/** Feeds as parallel arrays. */
export type CoreFeeds = [names: string[], types: string[], dims: number[][], pointers: number[]];

/** Options that the core reads by the rows of src/quant/options.inc. quantize/ has checked them. */
export type CoreTensorOptions = Readonly<Record<string, unknown>>;

export interface CoreStatePair {
  past: string;
  present: string;
  /** -1: the only open one behind the first. */
  axis: number;
  once: boolean;
  coded: boolean;
}

export interface CoreStateEntry {
  past: string;
  present: string;
  axis: number;
  once: boolean;
  tokens: number;
  inPlace: boolean;
  codes: boolean;
}

// The exports of dist/core.js (bindings/README.md) in types, written by hand; tests compare both.

import type {
  CoreBackend,
  CoreCompareOptions,
  CoreComposite,
  CoreFeeds,
  CoreFileNeeds,
  CoreGeneratedC,
  CoreGrid,
  CoreOperatorOptions,
  CoreSampleResult,
  CoreSessionOptions,
  CoreSlotEdit,
  CoreWeightsOptions,
  CoreStateEntry,
  CoreStatePair,
} from './core_data.js';
import type {
  CoreNode,
  CoreOperatorDefinition,
  CorePassDefinition,
  CoreTensor,
  UserFailure,
} from './core_own.js';

export type * from './core_data.js';

/** A function of the core returns this instead of its result when it failed. */
export interface Failure {
  requantError: { code: string; message: string; node: string; value: string; hint: string };
}

/** An Embind object, which lives in the wasm memory until it is deleted. */
export interface CoreObject {
  delete(): void;
}

export interface CoreBlob extends CoreObject {
  readonly pointer: number;
  readonly size: number;
  free(): void;
}

export interface CoreModel extends CoreObject {
  info(): string | Failure;
  /** Entries of the function table that its operators may need. */
  functions(): number[] | Failure;
  /** Whether a kernel for few bits may be chosen. */
  lowBits(): boolean | Failure;
  text(maxConstantElements: number): string | Failure;
  dot(): string | Failure;
  /**
   * Writes an ONNX file, and larger constants to a second one of that name, unless it is empty. The numbers are the
   * parts of the first one, then pointer and size of each part of both; they live as long as this object.
   */
  onnx(externalData: string): number[] | Failure;
  copy(): CoreModel | Failure;
  optimize(options: {
    only?: readonly string[];
    disable?: readonly string[];
    dump?: boolean;
  }): string | Failure;
}

/** A model that was quantized without samples, and JSON about the rest of its operators. */
export interface CoreWeights {
  model: CoreModel;
  /** { operators: [{ name, type, reason }], summary } */
  left: string;
  /** [{ name, calibrated, detail, before, after }], with calibration. */
  layers?: string;
}

/** A model in plain integer operators. */
export interface CoreLegalized {
  model: CoreModel;
  /** { legalized: [{ name, type }], left: [{ name, type, reason }] } */
  report: string;
}

export interface CoreResult {
  name: string;
  type: string;
  dims: number[];
  pointer: number;
  size: number;
}

export interface CoreSession extends CoreObject {
  info(): string | Failure;
  run(...feeds: CoreFeeds): CoreResult[] | Failure;
  plan(): string | Failure;
  profile(): string | Failure;
  /** Plans for feeds of these names, types and dims. */
  prepareFor(names: string[], types: string[], dims: number[][]): undefined | Failure;
  save(): CoreBlob | Failure;
  /** Entries of the function table that the plan's operators need. */
  functions(): number[] | Failure;
  /** Whether the plan needs kernels for few bits that are not loaded. */
  lowBits(): boolean | Failure;
  bind(
    names: string[],
    types: string[],
    dims: number[][],
  ): { id: number; inputs: number[]; results: CoreResult[] } | Failure;
  runBound(id: number): undefined | Failure;
  unbind(id: number): void;
}

/** What runs of a session remember. */
export interface CoreState extends CoreObject {
  run(...feeds: CoreFeeds): CoreResult[] | Failure;
  pairs(): CoreStateEntry[] | Failure;
  bytes(): number;
  plan(): string | Failure;
  truncate(pair: number, tokens: number): undefined | Failure;
  select(images: readonly number[]): undefined | Failure;
  copy(): CoreState | Failure;
  /** A copy that lives until the next call; undefined before the first run. */
  get(pair: number): CoreResult | undefined | Failure;
  load(...tensors: CoreFeeds): undefined | Failure;
}

export interface CoreQuantizeOptions {
  global?: CoreOperatorOptions;
  types?: Record<string, CoreOperatorOptions>;
  operators?: Record<string, CoreOperatorOptions>;
  recover?: readonly string[];
  quickChoices?: boolean;
  recoverNamed: boolean;
  analyze?: boolean;
  scales?: Record<string, { scale: number[]; offset: number[] }>;
  readonly [option: string]: unknown;
}

/** Pass by pass, add() comes for every sample, then step() until there is no more; then finish(). */
/** Makes the integers of a layer at each step(). */
export interface CoreWeightQuantizer extends CoreObject {
  step(): { more: boolean; done: number; total: number } | Failure;
  finish(): CoreWeights | Failure;
}

export interface CoreWeightsCalibrator extends CoreObject {
  passes(): number;
  add(pass: number, ...feeds: CoreFeeds): Failure | undefined;
  /** Makes the integers of a layer. */
  step(): { more: boolean; done: number; total: number } | Failure;
  finish(): CoreWeights | Failure;
}

export interface CoreCalibrator extends CoreObject {
  /** The operators of the optimized network, before begin() as well. */
  nodes(): { name: string; type: string }[] | Failure;
  /** Comes once, before everything else but nodes(). */
  begin(options: CoreQuantizeOptions): Failure | undefined;
  passes(): number | Failure;
  add(pass: number, ...feeds: CoreFeeds): Failure | undefined;
  probe(firstSample: number, ...feeds: CoreFeeds): Failure | undefined;
  saveState(pass: number): CoreBlob | Failure;
  loadState(pass: number, pointer: number, size: number, merge: boolean): Failure | undefined;
  step(): { method: string; done: number; total: number; finished: boolean } | Failure;
  finish(): CoreQuantized | Failure;
}

/** Options that the core reads by the rows of src/train/options.inc; train/ has checked them. */
export type CoreTrainOptions = Readonly<Record<string, unknown>> & { measuredBatches: number };

export interface CoreTrainer extends CoreObject {
  add(
    names: string[],
    types: string[],
    dims: number[][],
    pointers: number[],
    label: number,
  ): undefined | Failure;
  /** Computes a slice of the batch; loss and counts are those of the batch once it is finished. */
  advance(
    rate: number,
  ): { finished: boolean; loss: number; correct: number; labelled: number } | Failure;
  /** Forgets the samples that were added. */
  clear(): undefined | Failure;
  freeze(): undefined | Failure;
  /** Everything that training has changed; only between batches. */
  state(): CoreBlob | Failure;
  restore(pointer: number, size: number): undefined | Failure;
  /** The model as finish() would give it now; training goes on. */
  snapshot(): CoreQuantized | Failure;
  /** `note` ends the line about the training in the model's record. */
  finish(note: string): CoreQuantized | Failure;
}

export interface CoreQuantized extends CoreObject {
  record(): string | Failure;
  integer(): CoreModel | Failure;
  qdq(narrowest: number): CoreModel | Failure;
  qonnx(): CoreModel | Failure;
  qoperator(): CoreModel | Failure;
  floatModel(): CoreModel | Failure;
  /** A copy with one more warning in its record. */
  copy(warning: string): CoreQuantized | Failure;
  /** A copy with other values of slots. */
  edited(edits: readonly CoreSlotEdit[]): CoreQuantized | Failure;
}

export interface CoreObserver extends CoreObject {
  passes(): number | Failure;
  observe(pass: number, type: string, dims: number[], pointer: number): Failure | undefined;
  merge(later: CoreObserver): Failure | undefined;
  copy(): CoreObserver | Failure;
  reset(): Failure | undefined;
  ranges(): [number, number][] | Failure;
  grid(): CoreGrid | Failure;
}

export interface CoreFakeQuantizer extends CoreObject {
  /** The result's numbers. */
  forward(type: string, dims: number[], pointer: number): CoreBlob | Failure;
  /** `scale` is empty where scales have no gradient. */
  backward(
    type: string,
    dims: number[],
    pointer: number,
  ): { input: CoreBlob; scale: number[] } | Failure;
  freeze(): Failure | undefined;
  grid(): CoreGrid | Failure;
}

export interface CorePart {
  /** Index of the backend; -1: the engine. */
  backend: number;
  macs: number;
  composites: CoreComposite[];
  model: CoreModel;
}

export interface CoreComparer extends CoreObject {
  add(
    names: string[],
    types: string[],
    dims: number[][],
    pointers: number[],
    label: number,
  ): CoreSampleResult | Failure;
  report(): string | Failure;
}

export interface Core {
  /** The memory as bytes. It is replaced when the memory grows, so read it anew every time. */
  readonly HEAPU8: Uint8Array<ArrayBuffer>;
  allocate(bytes: number): number | Failure;
  free(pointer: number): void;
  readOnnx(
    pointer: number,
    size: number,
    /** The external file of each piece. */
    names: readonly string[],
    /** Offset in the file, pointer and size of each piece, which the core takes over. */
    pieces: readonly number[],
    floatLayers: boolean,
  ): CoreModel | Failure;
  fileNeeds(pointer: number, size: number): CoreFileNeeds | Failure;
  createSession(model: CoreModel, options: CoreSessionOptions): CoreSession | Failure;
  loadPlan(pointer: number, size: number, options: CoreSessionOptions): CoreSession | Failure;
  operators(): string | Failure;
  passes(): string | Failure;
  kernels(): string | Failure;
  liveBytes(): number;
  _run_bound(id: number): number;
  /** Divides steps among so many threads from now on, the caller included. */
  useThreads(count: number): void;
  /** Names of the kernels that threads run, separated by spaces, in the order of their numbers. */
  threadKernels(): string;
  /** Exists after loadOperators(). An axis of -1 is the only open one behind the first. */
  createState(
    session: CoreSession,
    pairs: readonly CoreStatePair[],
    room: number,
  ): CoreState | Failure;
  /** Exists after loadOperators(). Writes the handles of strings, which are as bytesOf() gives them. */
  putTexts(packed: number, size: number, count: number, handles: number): undefined | Failure;
  /** Exists after loadOperators(). The strings of handles, as bytesOf() gives them. */
  getTexts(handles: number, count: number): CoreBlob | Failure;
  // The members from here on belong to the tools and exist after loadTools().
  parseText(text: string): CoreModel | Failure;
  createWeightQuantizer(
    model: CoreModel,
    options: CoreWeightsOptions,
  ): CoreWeightQuantizer | Failure;
  createWeightsCalibrator(
    model: CoreModel,
    options: CoreWeightsOptions,
  ): CoreWeightsCalibrator | Failure;
  dynamically(
    model: CoreModel,
    embeddings: boolean,
    perToken: boolean,
    weightBits: number,
    int8Attention: boolean,
  ): CoreWeights | Failure;
  readQuantized(model: CoreModel): CoreQuantized | Failure;
  /** A float model as a quantized one of which every operator stays in float, for training. */
  floatQuantized(model: CoreModel): CoreQuantized | Failure;
  /** The graph that C is written from, for inputs of these names and dims. */
  prepareForC(model: CoreModel, names: string[], dims: number[][]): CoreModel | Failure;
  /** Writes C of what prepareForC gave; `kernels` alternates names and texts. */
  generateC(
    model: CoreModel,
    options: {
      name: string;
      requantize: string;
      /** `header` may be empty; `nodes`: indices in the list of nodes, ascending. */
      calls: { function: string; header: string; nodes: readonly number[] }[];
    },
    kernels: string[],
  ): CoreGeneratedC | Failure;
  generateJson(model: CoreModel, maxNumbers: number): string | Failure;
  /** `decomposition` is 'subtract_first' or 'four_terms'. */
  legalize(
    model: CoreModel,
    options: { decomposition: string; requantize: string },
  ): CoreLegalized | Failure;
  /** Writes a .tflite file for inputs of these names and dims; `report` is JSON (src/tflite/write.h). */
  writeTflite(
    model: CoreModel,
    names: string[],
    dims: number[][],
    options: { onnxLayout: boolean; codes: boolean; halfWeights: boolean },
  ): { file: CoreBlob; report: string } | Failure;
  addPass(definition: CorePassDefinition): undefined | Failure;
  removePass(name: string): boolean;
  addOperator(definition: CoreOperatorDefinition): undefined | Failure;
  removeOperator(name: string, domain: string): boolean;
  /** Runs the model by references. `observe` sees every value that a node computes. */
  interpret(
    model: CoreModel,
    names: string[],
    types: string[],
    dims: number[][],
    pointers: number[],
    options: { requantize: string },
    observe:
      ((node: CoreNode, value: string, tensor: CoreTensor) => null | UserFailure) | undefined,
    output: (name: string, tensor: CoreTensor) => void,
  ): undefined | Failure;
  /** What generateJson writes without `data` of constants of more elements, and with null for bodies. */
  describe(model: CoreModel, maxNumbers: number): string | Failure;
  /** What computes the values or results of nodes `to` from `from`. */
  extract(model: CoreModel, from: string[], to: string[]): CoreModel | Failure;
  /** The model with all types that follow from inputs of these names and dims. */
  withTypes(model: CoreModel, names: string[], dims: number[][]): CoreModel | Failure;
  /** Indices in the list of nodes. */
  nodesInC(model: CoreModel, options: { requantize: string }): number[] | Failure;
  partition(model: CoreModel, backends: CoreBackend[]): CorePart[] | Failure;
  packWeights(model: CoreModel): CoreModel | Failure;
  createCalibrator(model: CoreModel): CoreCalibrator | Failure;
  /** Options that the core reads by the rows of src/quant/options.inc; quantize/ has checked them. */
  createObserver(options: Readonly<Record<string, unknown>>): CoreObserver | Failure;
  createFakeQuantizer(options: Readonly<Record<string, unknown>>): CoreFakeQuantizer | Failure;
  createTrainer(model: CoreQuantized, options: CoreTrainOptions): CoreTrainer | Failure;
  createComparer(
    float: CoreModel,
    candidate: CoreModel,
    options: CoreCompareOptions,
  ): CoreComparer | Failure;
}

/** The overrides of the Emscripten module that the loader uses. */
export interface CoreModuleOptions {
  instantiateWasm(
    imports: WebAssembly.Imports,
    receive: (instance: WebAssembly.Instance, module: WebAssembly.Module) => void,
  ): object;
  print?: (text: string) => void;
  printErr?: (text: string) => void;
}

declare function createCore(options: CoreModuleOptions): Promise<Core>;
export default createCore;

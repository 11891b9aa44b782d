/// <reference lib="esnext.disposable" preserve="true" />

import { Breather, throwIfAborted } from '../base/abort.js';
import { RequantError, invalidArgument, show } from '../base/errors.js';
import { checkKind, checkOneOf, checkOptions, loadOptionKinds, suggest } from '../base/options.js';
import { saveBytes } from '../base/save.js';
import { describe, insteadOf } from '../base/signatures.js';
import {
  type LoadProgress,
  type Loaded,
  type Source,
  besides,
  readSource,
} from '../base/source.js';
import type { TensorType } from '../base/tensor.js';
import type { Core, CoreModel, CoreSession, Failure } from '../core.js';
import { Handle, call, copyIn, free, makeDisposable, takeBlob } from '../engine/heap.js';
import {
  type EnginePart,
  loadCore,
  loadLowBits,
  loadOperators,
  loadTools,
  prefetchLowBits,
  prefetchParts,
  sessionThreads,
} from '../engine/load_core.js';
import {
  type PlanningOptions,
  checkRequantize,
  createCoreSession,
  planningOptionKinds,
} from './session_options.js';

/** Name, element type and shape of a graph's input or output. */
export interface ValueInfo {
  name: string;
  type: TensorType;
  /** A number, the name of a symbolic dimension, or null for an unknown one. */
  dims: (number | string | null)[];
}

/** One operator of a graph. */
export interface NodeInfo {
  name: string;
  /** Operator type, such as "Conv". */
  op: string;
  /** Empty for ONNX's own operators. */
  domain: string;
  /** Names of values; empty where an optional input is left out. */
  inputs: string[];
  outputs: string[];
}

/** The contents of a model. */
export interface ModelInfo {
  name: string;
  /** Version by operator domain. */
  opsets: Record<string, number>;
  inputs: ValueInfo[];
  outputs: ValueInfo[];
  nodes: NodeInfo[];
  /** Number of elements of all constants. */
  parameters: number;
  /** Bytes of all constants. */
  constantBytes: number;
  /** Whether it has quantized operators. */
  quantized: boolean;
}

/** Options of {@link Model.optimize}. */
export interface OptimizeOptions {
  /** Run only these passes, in their order; {@link engineInfo} lists all names. */
  passes?: readonly string[];
  /** Passes to leave out. */
  disable?: readonly string[];
  /** Keep the graph as text and DOT after each pass that changed it. */
  dump?: boolean;
}

/** The effects of the passes. */
export interface OptimizeReport {
  /** How often all passes ran until nothing changed any more. */
  rounds: number;
  passes: {
    name: string;
    changed: boolean;
    milliseconds: number;
    nodesBefore: number;
    nodesAfter: number;
  }[];
  dumps?: { pass: string; text: string; dot: string }[];
}

/** Options of {@link loadModel}. */
export interface LoadOptions {
  /** Called while the file is read. */
  onProgress?: (progress: LoadProgress) => void;
  signal?: AbortSignal;
  /**
   * The model's external data files by the names it uses. Files that are not given are looked for beside the
   * model, if it comes from a path or URL.
   */
  externalData?: Readonly<Record<string, Source>>;
  /**
   * Threads of the engine that holds the model, as in {@link WasmEnv.numThreads}, which is the default.
   * Models for one thread and for several live in different engines and do not mix.
   */
  numThreads?: number | 'auto';
  /**
   * Parts of the engine to fetch together with the model instead of after it: `'tools'` to quantize, compare
   * or train, `'lowBits'` for a model with weights of few bits, `'operators'` for one with extended operators
   * (the other two include them). Without this option each part is fetched once it is known to be needed.
   */
  preload?: readonly EnginePart[];
}

/** Options of {@link Model.toPlan}. */
export interface PlanOptions extends PlanningOptions {
  /** Shapes of the inputs, by name: needed for those whose dimensions are not all known. */
  shapes?: Readonly<Record<string, readonly number[]>>;
  /** As in {@link SessionOptions}; the plan is for so many threads. */
  numThreads?: number | 'auto';
}

const planOptionKinds = {
  ...planningOptionKinds,
  shapes: 'object',
  numThreads: 'any',
} as const;

/** How the accumulators of integer operators become 8-bit values. */
export type RequantizeMode = 'fixed' | 'float' | 'nearest' | 'gemmlowp';

/** An operator whose weights stay float. */
export interface FloatOperator {
  /** The operator's name, for one in a body with the path to it: "if/then_branch/product". */
  name: string;
  type: string;
  reason: string;
}

/**
 * A parsed and verified graph in the engine's memory. {@link loadModel} makes it; `dispose()` gives the
 * memory back.
 */
export class Model {
  /** @internal */
  readonly handle: Handle<CoreModel>;
  /** @internal The mode of sessions that ask for none. */
  readonly requantize: RequantizeMode;
  /**
   * In models that {@link quantizeWeights} and {@link quantizeDynamic} make: the operators whose weights stay
   * float, bodies of If, Loop and Scan included. Empty in others.
   */
  readonly floatOperators: readonly FloatOperator[];
  /** The float operators in one line of text. */
  readonly warnings: readonly string[];
  #info: ModelInfo | undefined;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(
    core: Core,
    object: CoreModel,
    requantize: RequantizeMode = 'float',
    floatOperators: readonly FloatOperator[] = [],
    warnings: readonly string[] = [],
  ) {
    this.handle = new Handle(core, object, 'model');
    this.requantize = requantize;
    this.floatOperators = floatOperators;
    this.warnings = warnings;
  }

  /** Inputs, outputs, operators and sizes. */
  get info(): ModelInfo {
    this.#info ??= this.handle.json<ModelInfo>((model) => model.info());
    return this.#info;
  }

  /** A short summary of the graph for people. */
  summary(): string {
    const { name, opsets, inputs, outputs, nodes, parameters, constantBytes, quantized } =
      this.info;
    const value = (meta: ValueInfo) =>
      `${meta.name}: ${meta.type}[${meta.dims.map((dim) => dim ?? '?').join(', ')}]`;
    const counts = new Map<string, number>();
    for (const node of nodes) counts.set(node.op, (counts.get(node.op) ?? 0) + 1);
    const operators = [...counts]
      .sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]))
      .map(([op, count]) => `${count} ${op}`);
    const versions = Object.entries(opsets).map(([domain, at]) => `${domain || 'ai.onnx'} ${at}`);
    return [
      `graph "${name}" (${quantized ? 'quantized' : 'float'}; opset ${versions.join(', ')})`,
      ...inputs.map((meta) => `input  ${value(meta)}`),
      ...outputs.map((meta) => `output ${value(meta)}`),
      `${nodes.length} operators: ${operators.join(', ')}`,
      `${parameters.toLocaleString('en')} constant elements, ${(constantBytes / 1000).toFixed(1)} kB`,
    ].join('\n');
  }

  /**
   * The graph as text, one operator a line. Constants with more elements than `maxConstantElements` (default
   * 16) are only described; 0 writes all of them, and {@link parseModel} reads such text.
   */
  toText(options: { maxConstantElements?: number } = {}): string {
    checkOptions(options, { maxConstantElements: 'integer' }, 'options');
    const { maxConstantElements = 16 } = options;
    if (maxConstantElements < 0) {
      throw invalidArgument('maxConstantElements must not be negative', 'maxConstantElements');
    }
    return this.handle.call((model) => model.text(maxConstantElements));
  }

  /** The graph in Graphviz's language. */
  toDot(): string {
    return this.handle.call((model) => model.dot());
  }

  /**
   * The bytes of an ONNX file.
   *
   * @throws RequantError DISPOSED, OUT_OF_MEMORY.
   */
  toOnnx(): Uint8Array<ArrayBuffer> {
    return takeBlob(
      this.handle.core,
      this.handle.call((model) => model.onnx()),
    );
  }

  /**
   * Writes the ONNX file: to a path in Node, as a download of that name in a page.
   *
   * @throws RequantError what {@link toOnnx} throws; SAVE_FAILED, and UNSUPPORTED in a Worker of a page.
   */
  save(name: string): Promise<void> {
    return saveBytes(name, this.toOnnx());
  }

  /**
   * The plan of a session of this model, as {@link InferenceSession.toPlan} gives it: kernels chosen, weights
   * packed, memory laid out. {@link InferenceSession.create} takes the bytes.
   *
   * @throws RequantError UNSUPPORTED for a model of open shape without `shapes`.
   */
  async toPlan(options: PlanOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    checkOptions(options, planOptionKinds, 'options');
    checkRequantize(options.requantize, 'options.requantize');
    const { numThreads, shapes = {}, requantize = this.requantize } = options;
    const { core, object } = this.handle;
    const threads = await sessionThreads(core, numThreads);
    const planning = { ...options, requantize };
    const session = new Handle(
      core,
      await createCoreSession(core, object, planning, { threads }),
      'plan',
    );
    try {
      if (Object.keys(shapes).length > 0) this.#planFor(session, shapes);
      return takeBlob(
        core,
        session.call((made) => made.save()),
      );
    } finally {
      session.dispose();
    }
  }

  #planFor(
    session: Handle<CoreSession>,
    shapes: Readonly<Record<string, readonly number[]>>,
  ): void {
    const { inputs } = this.info;
    const names = inputs.map(({ name }) => name);
    const dims = inputShapes(inputs, shapes);
    const types = inputs.map(({ type }) => type);
    session.call((made) => made.prepareFor(names, types, dims));
  }

  /**
   * Simplifies the graph in place, so that fewer operators compute the same outputs.
   *
   * @throws RequantError INVALID_ARGUMENT for an unknown option or pass, DISPOSED.
   */
  optimize(options: OptimizeOptions = {}): OptimizeReport {
    checkOptions(options, { passes: 'strings', disable: 'strings', dump: 'boolean' }, 'options');
    const { passes, disable, dump } = options;
    this.#info = undefined;
    return this.handle.json<OptimizeReport>((model) =>
      model.optimize({
        ...(passes ? { only: passes } : {}),
        ...(disable ? { disable } : {}),
        ...(dump === undefined ? {} : { dump }),
      }),
    );
  }

  /**
   * A separate model; constants share their memory.
   *
   * @throws RequantError DISPOSED.
   */
  clone(): Model {
    return new Model(
      this.handle.core,
      this.handle.call((model) => model.copy()),
      this.requantize,
    );
  }

  /** Gives the memory back; the model cannot be used any more. */
  dispose(): void {
    this.handle.dispose();
  }
}

makeDisposable(Model, function (this: Model) {
  this.dispose();
});

/** @internal A shape for every input: that of `shapes`, or else the model's own. */
export function inputShapes(
  inputs: readonly ValueInfo[],
  shapes: Readonly<Record<string, readonly number[]>>,
): number[][] {
  const names = inputs.map(({ name }) => name);
  const wrong = Object.keys(shapes).find((name) => !names.includes(name));
  if (wrong !== undefined) {
    throw invalidArgument(`the model has no input "${wrong}"`, wrong, suggest(wrong, names));
  }
  return inputs.map(({ name, dims: known }) => {
    const shape = shapes[name] ?? known;
    if (Array.isArray(shape) && shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0)) {
      return shape as number[];
    }
    const text = Array.isArray(shape)
      ? `[${shape.map((dim) => dim ?? '?').join(', ')}]`
      : show(shape);
    throw invalidArgument(
      `the shape of input "${name}" is ${text}`,
      `options.shapes.${name}`,
      'Give a number for every dimension.',
    );
  });
}

function checkExternalName(name: string): void {
  // ONNX demands a path relative to the model's folder; any other could reach other files.
  if (/^([/\\]|[a-z]:)/i.test(name) || name.split(/[/\\]/).includes('..') || name === '') {
    throw new RequantError(
      'INVALID_MODEL',
      `the external data file "${name}" is not beside the model`,
      {
        value: name,
      },
    );
  }
}

async function readExternal(
  names: readonly string[],
  loaded: Loaded,
  { externalData = {}, signal }: LoadOptions,
): Promise<Map<string, Uint8Array>> {
  const files = new Map<string, Uint8Array>();
  for (const name of names) {
    let source: Parameters<typeof readSource>[0];
    if (Object.hasOwn(externalData, name)) {
      source = externalData[name]!;
    } else if (loaded.location) {
      checkExternalName(name);
      source = besides(loaded.location, name);
    } else {
      throw invalidArgument(
        `the model keeps its weights in another file, "${name}"`,
        name,
        `Give it: loadModel(bytes, { externalData: { ${JSON.stringify(name)}: ... } }).`,
      );
    }
    const { bytes } = await readSource(source, signal ? { signal } : {});
    const wrong = insteadOf('data', bytes, name, { certain: true });
    if (wrong) throw wrong;
    files.set(name, bytes);
  }
  return files;
}

/** The name of a file in errors. */
function placeOf({ location }: Loaded): string | undefined {
  return location && ('url' in location ? location.url : location.path);
}

/** The core's error for a file that it cannot read, or one that says what the file is instead of a model. */
function notRead(
  error: unknown,
  loaded: Loaded,
  external: ReadonlyMap<string, Uint8Array>,
): unknown {
  if (!(error instanceof RequantError)) return error;
  const { code, message } = error;
  if (code !== 'INVALID_MODEL' && code !== 'UNSUPPORTED') return error;
  const instead = insteadOf('model', loaded.bytes, placeOf(loaded), { cause: error });
  if (instead) return instead;
  if (/no protobuf message|has no graph/.test(message)) {
    const what = placeOf(loaded) ?? 'this';
    return new RequantError(code, `${what} is no ONNX model: ${message}`, {
      hint: `It has ${describe(loaded.bytes)}: another kind of file, or one that is damaged or cut off.`,
      cause: error,
    });
  }
  for (const [name, bytes] of external) {
    const wrong = insteadOf('data', bytes, name, { cause: error });
    if (wrong) return wrong;
  }
  return error;
}

/** @internal Whether the bytes are from {@link InferenceSession.toPlan} (src/plan/file.cpp). */
export function isPlan(bytes: Uint8Array): boolean {
  return '\x93RQPLAN\n'.split('').every((letter, at) => bytes[at] === letter.charCodeAt(0));
}

/**
 * Whether steps of a saved plan are extended operators, which a byte of its header tells (src/plan/file.cpp).
 */
export function needsOperators(plan: Uint8Array): boolean {
  return plan[15] === 1;
}

async function parse(core: Core, loaded: Loaded, options: LoadOptions): Promise<Model> {
  // Pointers that we must free; readOnnx takes all of them over.
  let owned: number[] = [];
  let external: ReadonlyMap<string, Uint8Array> = new Map();
  const reading = <T>(action: () => T | Failure) => {
    try {
      return call(core, action);
    } catch (error) {
      throw notRead(error, loaded, external);
    }
  };
  try {
    const size = loaded.bytes.length;
    const pointer = copyIn(core, loaded.bytes);
    owned.push(pointer);
    const wanted = reading(() => core.externalFiles(pointer, size));
    external = await readExternal(wanted, loaded, options);
    throwIfAborted(options.signal);
    const names = [...external.keys()];
    const sizes = [...external.values()].map((bytes) => bytes.length);
    for (const bytes of external.values()) owned.push(copyIn(core, bytes));
    const pointers = owned.slice(1);
    owned = [];
    const object = reading(() => core.readOnnx(pointer, size, names, pointers, sizes));
    const model = new Model(core, object);
    try {
      const { handle } = model;
      // Sessions of the model will need these kernels.
      if (handle.call((read) => read.lowBits())) prefetchLowBits(core);
      await loadOperators(
        core,
        handle.call((read) => read.functions()),
      );
    } catch (error) {
      model.dispose();
      throw error;
    }
    return model;
  } finally {
    for (const pointer of owned) free(core, pointer);
  }
}

/**
 * Reads an ONNX model, float or quantized, and verifies it.
 *
 * @param source Bytes, a `Blob`, a URL, or in Node a path.
 * @throws RequantError `LOAD_FAILED` when it cannot be read, `INVALID_MODEL` or `UNSUPPORTED` when it cannot
 * be used, `ABORTED`.
 * @example
 * const model = await loadModel('model.onnx');
 * console.log(model.summary());
 */
export async function loadModel(source: Source, options: LoadOptions = {}): Promise<Model> {
  checkOptions(options, loadOptionKinds, 'options');
  const { core, loaded } = await openSource(source, options);
  return modelOf(core, loaded, options);
}

/** @internal Fetches the engine and the bytes at the same time. */
export async function openSource(
  source: Source,
  options: LoadOptions,
): Promise<{ core: Core; loaded: Loaded }> {
  const { preload = [] } = options;
  for (const part of preload) {
    checkOneOf(part, ['operators', 'tools', 'lowBits'], 'options.preload');
  }
  void prefetchParts(preload, options.numThreads);
  const [core, loaded] = await Promise.all([
    loadCore(options.numThreads),
    readSource(source, options),
  ]);
  throwIfAborted(options.signal);
  return { core, loaded };
}

/** @internal Makes a model of the bytes. */
export async function modelOf(core: Core, loaded: Loaded, options: LoadOptions): Promise<Model> {
  if (isPlan(loaded.bytes)) {
    throw new RequantError('INVALID_MODEL', 'this is the saved plan of a session, not a model', {
      hint: 'Give it to InferenceSession.create.',
    });
  }
  if (options.onProgress) {
    const size = loaded.bytes.length;
    options.onProgress({ phase: 'parse', done: size, total: size });
    await new Breather(options.signal).breathe(true);
  }
  return parse(core, loaded, options);
}

/** Makes a model from the text form of graphs that {@link Model.toText} writes; for tests and experiments. */
export async function parseModel(text: string): Promise<Model> {
  checkKind(text, 'string', 'text');
  const core = await loadCore();
  await loadTools(core);
  return new Model(
    core,
    call(core, () => core.parseText(text)),
  );
}

/** @internal Loads the tools, and for models of few bits the kernels that run them. */
export async function loadToolsFor(...models: readonly Model[]): Promise<void> {
  const needing = models.filter(({ handle }) => handle.call((object) => object.lowBits()));
  await Promise.all([
    ...models.map(({ handle }) => loadTools(handle.core)),
    ...needing.map(({ handle }) => loadLowBits(handle.core)),
  ]);
}

/** @internal Waits for a model that may be a promise, and meanwhile begins to load the tools. */
export async function arrived(model: Model | PromiseLike<Model>): Promise<Model> {
  if (typeof (model as { then?: unknown } | null | undefined)?.then !== 'function') {
    return model as Model;
  }
  void prefetchParts(['tools']);
  return await model;
}

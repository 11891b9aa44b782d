// Runs inside the worker: the ordinary API, called by messages.

import { type CompareOptions, type CompareSample, compare } from '../analyze/compare.js';
import { RequantError, invalidArgument } from '../base/errors.js';
import { importNode, isNode } from '../base/host.js';
import { type Source } from '../base/source.js';
import type { Tensor } from '../base/tensor.js';
import { engineInfo } from '../engine/engine_info.js';
import { type Env, type WasmEnv, env } from '../engine/env.js';
import { askForModules } from '../engine/modules.js';
import { type GenerateCOptions, generateC } from '../export/generate.js';
import { nodeDetails } from '../export/node_details.js';
import { loadModel, parseModel } from '../model/load_model.js';
import type { LoadOptions } from '../model/load_options.js';
import { Model, type OptimizeOptions, type PlanOptions } from '../model/model.js';
import type { TfliteOptions } from '../model/tflite.js';
import type { WasmFile } from '../own_files.js';
import { quantize } from '../search/quantize.js';
import type { QuantizeOptions } from '../search/search_options.js';
import { type ExportOptions, QuantizedModel } from '../quantize/quantized_model.js';
import type { QuantizationRecord } from '../quantize/record.js';
import {
  type DynamicOptions,
  type WeightsOptions,
  quantizeDynamic,
  quantizeWeights,
} from '../quantize/weights.js';
import { InferenceSession } from '../session/session.js';
import type { SessionState } from '../session/state.js';
import type { SessionOptions } from '../session/session_options.js';
import { train } from '../train/train.js';
import { epochsFrom } from '../train/epochs.js';
import type { TrainOptions } from '../train/train_options.js';
import { type TuneOptions, tune } from '../tune/tune.js';
import { AskedFunctions } from './asked_functions.js';
import { runMethods } from './serve_run.js';
import { stateMethods } from './serve_state.js';
import {
  type PackedFeeds,
  type Request,
  type Response,
  packError,
  buffersOf,
  unpackError,
  unpackFeeds,
} from './worker_protocol.js';

type Remote = Model | QuantizedModel | InferenceSession | SessionState | Tensor;

/** A running call: its signal, and the reader of the caller's iterable. */
class Call {
  readonly id: number;
  readonly controller = new AbortController();
  #answer: ((message: Request) => void) | undefined;
  readonly #questions: ((message: Request & { kind: 'answer' }) => void)[] = [];

  constructor(id: number) {
    this.id = id;
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  readonly onProgress = (value: unknown) => post({ kind: 'progress', id: this.id, value });

  receive(message: Request): void {
    if (message.kind === 'answer') this.#questions[message.question]?.(message);
    else this.#answer?.(message);
  }

  /** The functions of the caller's metrics. */
  readonly functions = new AskedFunctions((name, args) => this.#ask(name, args));

  #ask(name: string, args: unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const question =
        this.#questions.push(({ value, error }) => {
          delete this.#questions[question];
          if (error) reject(unpackError(error));
          else resolve(value);
        }) - 1;
      post({ kind: 'ask', id: this.id, question, name, args });
    });
  }

  /** Samples with labels. */
  readonly sample = (sample: { feeds: PackedFeeds }): CompareSample =>
    this.functions.note({ ...sample, feeds: unpackFeeds(sample.feeds) });

  /** The caller's items, fetched one at a time. */
  items<T, R>(unpack: (item: T) => R, length?: number): AsyncIterable<R> {
    const stream = this.#stream(unpack);
    return length === undefined ? stream : Object.assign(stream, { length });
  }

  async *#stream<T, R>(unpack: (item: T) => R): AsyncGenerator<R, void, undefined> {
    for (;;) {
      const message = await new Promise<Request>((resolve) => {
        this.#answer = resolve;
        post({ kind: 'pull', id: this.id });
      });
      if (message.kind === 'failed') throw unpackError(message.error);
      if (message.kind !== 'item' || message.done) return;
      yield unpack(message.value as T);
    }
  }
}

let post: (message: Response, transfer?: ArrayBuffer[]) => void;
const objects = new Map<number, Remote>();
const calls = new Map<number, Call>();
let lastObject = 0;

function keep(object: Remote): number {
  lastObject += 1;
  objects.set(lastObject, object);
  return lastObject;
}

const unfit = (object: unknown) =>
  object
    ? invalidArgument('the method does not take objects of this kind', 'model')
    : new RequantError('DISPOSED', 'the object is used after it was disposed of');

function get<T extends Remote>(key: number, type: abstract new (...args: never[]) => T): T {
  const object = objects.get(key);
  if (object instanceof type) return object;
  throw unfit(object);
}

// The constructors of Model and InferenceSession are not public; instanceof needs only these types.
const modelType = Model as unknown as abstract new () => Model;
const sessionType = InferenceSession as unknown as abstract new () => InferenceSession;

type Ref = { ref: number };
const isRef = (value: unknown): value is Ref =>
  typeof value === 'object' && value !== null && 'ref' in value;

function either(key: number): Model | QuantizedModel {
  const object = objects.get(key);
  if (object instanceof Model || object instanceof QuantizedModel) return object;
  throw unfit(object);
}

function weightsOf(model: Model) {
  const { floatOperators, warnings, weightLayers } = model;
  return { ref: keep(model), floatOperators, warnings, weightLayers };
}

/** What a call of long work has beside its options: samples that are sent together, and whether it saves states. */
interface Kept {
  validation?: { feeds: PackedFeeds }[];
  checkpoints: boolean;
}

function keptOptions(call: Call, validation: Kept['validation'], checkpoints: boolean) {
  const onCheckpoint = (checkpoint: Uint8Array, done: number) =>
    call.onProgress({ checkpoint, done });
  return {
    ...(validation ? { validation: validation.map(call.sample) } : {}),
    ...(checkpoints ? { onCheckpoint } : {}),
  };
}

const methods: Record<string, (call: Call, ...args: never[]) => unknown> = {
  ...runMethods({ get, keep }),
  ...stateMethods({ get, keep }),
  setEnv(_call, wasm: Partial<WasmEnv>, others: Pick<Env, 'logLevel' | 'debug'>) {
    Object.assign(env.wasm, wasm);
    Object.assign(env, others);
  },
  engineInfo: () => engineInfo(),
  async loadModel(call, source: Source, options: LoadOptions, progress: boolean) {
    const { signal, onProgress } = call;
    const model = await loadModel(source, {
      ...options,
      signal,
      ...(progress ? { onProgress } : {}),
    });
    return { ref: keep(model) };
  },
  async parseModel(_call, text: string) {
    return { ref: keep(await parseModel(text)) };
  },
  async createSession(
    call,
    source: Source | Ref,
    options: SessionOptions,
    progress: boolean,
    samples?: { length?: number },
  ) {
    const { signal, onProgress } = call;
    const unpack = (feeds: PackedFeeds) => unpackFeeds(feeds);
    const { quantize } = options;
    const session = await InferenceSession.create(isRef(source) ? either(source.ref) : source, {
      ...options,
      ...(samples && typeof quantize === 'object'
        ? { quantize: { ...quantize, calibration: call.items(unpack, samples.length) } }
        : {}),
      signal,
      ...(progress ? { onProgress } : {}),
    });
    const { inputMetadata, outputMetadata } = session;
    return { ref: keep(session), inputMetadata, outputMetadata };
  },
  async quantize(
    call,
    model: number,
    { floor, metric, ...options }: Omit<QuantizeOptions, 'calibration'>,
    length: number | undefined,
    { validation, checkpoints }: Kept,
  ) {
    const { signal, onProgress } = call;
    const calibration = call.items((feeds: PackedFeeds) => unpackFeeds(feeds), length);
    const quantized = await quantize(get(model, modelType), {
      ...options,
      calibration,
      signal,
      onProgress,
      ...(floor ? { floor: { ...floor, metric: call.functions.whole(floor.metric) } } : {}),
      ...(metric ? { metric: call.functions.whole(metric) } : {}),
      ...keptOptions(call, validation, checkpoints),
    });
    const { config, search } = quantized;
    return { ref: keep(quantized), config, search };
  },
  async requantize(_call, model: number, record: QuantizationRecord) {
    const quantized = await get(model, QuantizedModel).requantize(record);
    return { ref: keep(quantized), config: quantized.config };
  },
  async quantizeWeights(
    call,
    model: number,
    options: WeightsOptions,
    samples?: { length?: number },
  ) {
    const { signal, onProgress } = call;
    const unpack = (feeds: PackedFeeds) => unpackFeeds(feeds);
    const more = samples && { calibration: call.items(unpack, samples.length), signal, onProgress };
    return weightsOf(await quantizeWeights(get(model, modelType), { ...options, ...more }));
  },
  async quantizeDynamic(_call, model: number, options: DynamicOptions) {
    return weightsOf(await quantizeDynamic(get(model, modelType), options));
  },
  generateC: (_call, model: number, options: GenerateCOptions) => generateC(either(model), options),
  nodeDetails: (_call, model: number) => nodeDetails(get(model, modelType)),
  compare(
    call,
    model: number,
    candidate: number,
    { metric, ...options }: Omit<CompareOptions, 'dataset'>,
    length?: number,
  ) {
    const { signal, onProgress } = call;
    const dataset = call.items(call.sample, length);
    const all = { ...options, dataset, signal, onProgress };
    const measured = metric ? { metric: call.functions.whole(metric) } : {};
    return compare(get(model, modelType), either(candidate), { ...all, ...measured });
  },
  async train(
    call,
    model: number,
    { metric, ...options }: Omit<TrainOptions, 'dataset'>,
    length: number | undefined,
    { validation, checkpoints }: Kept,
  ) {
    const { signal, onProgress } = call;
    const unpack = (sample: { feeds: PackedFeeds } | null): CompareSample | null =>
      sample && { ...sample, feeds: unpackFeeds(sample.feeds) };
    const dataset = epochsFrom(call.items(unpack), length);
    const all = {
      ...options,
      dataset,
      signal,
      onProgress,
      ...(metric ? { metric: call.functions.whole(metric) } : {}),
      ...keptOptions(call, validation, checkpoints),
    };
    const given = either(model);
    if (given instanceof Model) return weightsOf(await train(given, all));
    const trained = await train(given, all);
    return { ref: keep(trained), config: trained.config };
  },
  async tune(
    call,
    model: number,
    feeds: PackedFeeds,
    options: Omit<TuneOptions, 'feeds' | 'onProgress' | 'signal'>,
  ) {
    const { signal, onProgress } = call;
    return tune(either(model), { ...options, feeds: unpackFeeds(feeds), signal, onProgress });
  },
  plan: (_call, session: number) => get(session, sessionType).plan(),
  profile: (_call, session: number) => get(session, sessionType).profile(),
  toPlan: (_call, session: number) => get(session, sessionType).toPlan(),
  modelToPlan: (_call, model: number, options: PlanOptions) =>
    get(model, modelType).toPlan(options),
  info: (_call, model: number) => get(model, modelType).info,
  summary: (_call, model: number) => get(model, modelType).summary(),
  toText: (_call, model: number, options: { maxConstantElements?: number }) =>
    get(model, modelType).toText(options),
  toDot: (_call, model: number) => get(model, modelType).toDot(),
  optimize: (_call, model: number, options: OptimizeOptions) =>
    get(model, modelType).optimize(options),
  toOnnx: (_call, model: number, options: ExportOptions) => {
    const object = either(model);
    return object instanceof Model ? object.toOnnx() : object.toOnnx(options);
  },
  toOnnxFiles: (_call, model: number, dataName: string) =>
    get(model, modelType).toOnnxFiles(dataName),
  toTflite: (_call, model: number, options: TfliteOptions) => either(model).toTflite(options),
  clone: (_call, model: number) => keep(get(model, modelType).clone()),
  // A clone, since the quantized model goes on using its graph when the caller forgets the copy.
  integerModel: (_call, model: number) => keep(get(model, QuantizedModel).integerModel.clone()),
  floatModel: (_call, model: number) => keep(get(model, QuantizedModel).floatModel()),
  dispose(_call, key: number) {
    objects.get(key)?.dispose();
    objects.delete(key);
  },
};

// Methods whose results nobody here keeps.
const giving = new Set(
  'run readTensor runState stateTensors toOnnx toOnnxFiles toPlan modelToPlan'.split(' '),
);

async function answer(call: Call, method: string, args: unknown[]): Promise<void> {
  try {
    const action = Object.hasOwn(methods, method) ? methods[method] : undefined;
    if (!action) throw new RequantError('INTERNAL', `the worker knows no method "${method}"`);
    const value = await action(call, ...(args as never[]));
    const moved = giving.has(method) ? buffersOf(value) : [];
    post({ kind: 'result', id: call.id, value }, moved);
  } catch (error) {
    post({ kind: 'error', id: call.id, error: packError(error) });
  } finally {
    calls.delete(call.id);
  }
}

const asked = new Map<WasmFile, (message: Request & { kind: 'module' }) => void>();

/** Asks the thread of the caller for a module that it has compiled, or compiles now. */
function askModule(file: WasmFile): Promise<WebAssembly.Module | undefined> {
  return new Promise((resolve, reject) => {
    asked.set(file, ({ module, error }) => {
      asked.delete(file);
      if (error) reject(unpackError(error));
      else resolve(module);
    });
    post({ kind: 'module', file });
  });
}

/** A message could not be read, so it had a module, which nothing else from another process has. */
function loadAlone(): void {
  for (const [file, answer] of asked) answer({ kind: 'module', file });
}

function receive(message: Request): void {
  if (message.kind === 'module') {
    asked.get(message.file)?.(message);
    return;
  }
  if (message.kind === 'call') {
    const call = new Call(message.id);
    calls.set(message.id, call);
    void answer(call, message.method, message.args);
    return;
  }
  const call = calls.get(message.id);
  if (message.kind === 'abort') call?.controller.abort();
  else call?.receive(message);
}

/** Answers the calls of the thread that started the worker. */
export async function serve(): Promise<void> {
  if (isNode) {
    const { parentPort } = await importNode<typeof import('node:worker_threads')>('worker_threads');
    if (!parentPort) throw new Error('worker_main runs in a worker only');
    post = (message, transfer = []) => parentPort.postMessage(message, transfer);
    parentPort.on('message', receive);
  } else {
    // The type of a page's `self`; a worker has no target origin.
    const scope = globalThis as unknown as {
      postMessage(message: unknown, transfer: Transferable[]): void;
      onmessage: (event: MessageEvent<Request>) => void;
      onmessageerror: () => void;
    };
    post = (message, transfer = []) => scope.postMessage(message, transfer);
    scope.onmessage = (event) => receive(event.data);
    scope.onmessageerror = loadAlone;
  }
  askForModules(askModule);
  post({ kind: 'ready' });
}

// A decoder remembers the tokens that it has read in the engine, here or in a Worker, or as tensors where the
// session has no state.

import { RequantError, invalidArgument } from '../base/errors.js';
import { Tensor, type TensorType } from '../base/tensor.js';
import { type TensorLike } from '../base/tensor_like.js';
import type { InferenceSession } from '../session/session.js';
import type { SessionState, StateOptions } from '../session/state.js';
import type { Memory } from './names.js';

/** @internal The keys and values of the tokens that were read. */
export interface Past {
  /** Runs the session on the feeds and the past, remembers, and returns this output. */
  run(
    feeds: Readonly<Record<string, TensorLike>>,
    output: string,
    signal: AbortSignal | undefined,
  ): Promise<Tensor>;
  /** Remembers the outputs of a run of another session. */
  take(outputs: Readonly<Record<string, Tensor>>): void;
  /** Forgets all but the first of so many tokens. */
  truncate(tokens: number, of: number): void;
  clone(): Past;
  dispose(): void;
}

/** The elements [0, end) of an axis. */
function sliced(tensor: Tensor, axis: number, end: number): Tensor {
  const dims = tensor.dims.map((dim, at) => (at === axis ? end : dim));
  const rows = tensor.dims.slice(0, axis).reduce((a, b) => a * b, 1);
  const inner = tensor.dims.slice(axis + 1).reduce((a, b) => a * b, 1);
  const from = tensor.data as Float32Array;
  const length = tensor.dims[axis]! * inner;
  const data = new (from.constructor as Float32ArrayConstructor)(rows * end * inner);
  for (let row = 0; row < rows; row++) {
    data.set(from.subarray(row * length, row * length + end * inner), row * end * inner);
  }
  return new Tensor(tensor.type, data as Tensor['data'], dims);
}

/** The past of a decoder that has read nothing. */
function emptyPast({ past, axis }: Memory): Tensor {
  const dims = past.shape.map((dim, at) => (at === axis ? 0 : typeof dim === 'number' ? dim : 1));
  return new Tensor(past.type as TensorType, [], dims);
}

class EnginePast implements Past {
  readonly #state: SessionState;

  constructor(state: SessionState) {
    this.#state = state;
  }

  async run(
    feeds: Readonly<Record<string, TensorLike>>,
    output: string,
    signal: AbortSignal | undefined,
  ): Promise<Tensor> {
    return (await this.#state.run(feeds, [output], signal ? { signal } : {}))[output]!;
  }

  take(outputs: Readonly<Record<string, Tensor>>): void {
    const tensors: Record<string, Tensor> = {};
    for (const { past, present } of this.#state.pairs()) tensors[past] = outputs[present]!;
    this.#state.load(tensors);
  }

  truncate(tokens: number): void {
    this.#state.truncate(tokens);
  }

  clone(): Past {
    return new EnginePast(this.#state.clone());
  }

  dispose(): void {
    this.#state.dispose();
  }
}

class TensorPast implements Past {
  readonly #session: InferenceSession;
  readonly #memory: readonly Memory[];
  #tensors: ReadonlyMap<string, Tensor>;

  constructor(
    session: InferenceSession,
    memory: readonly Memory[],
    tensors: ReadonlyMap<string, Tensor> = new Map(),
  ) {
    this.#session = session;
    this.#memory = memory;
    this.#tensors = tensors;
  }

  async run(
    feeds: Readonly<Record<string, TensorLike>>,
    output: string,
    signal: AbortSignal | undefined,
  ): Promise<Tensor> {
    const all: Record<string, TensorLike> = { ...feeds };
    const fetches = [output];
    for (const one of this.#memory) {
      const { past, present, cross } = one;
      const known = this.#tensors.get(past.name);
      all[past.name] = known ?? emptyPast(one);
      if (!(cross && known)) fetches.push(present);
    }
    const outputs = await this.#session.run(all, fetches, signal ? { signal } : {});
    this.take(outputs);
    return outputs[output]!;
  }

  take(outputs: Readonly<Record<string, Tensor>>): void {
    const tensors = new Map(this.#tensors);
    for (const { past, present } of this.#memory) {
      const tensor = outputs[present];
      if (tensor) tensors.set(past.name, tensor);
    }
    this.#tensors = tensors;
  }

  truncate(tokens: number, of: number): void {
    const left = new Map<string, Tensor>();
    for (const { past, axis, cross } of this.#memory) {
      const tensor = this.#tensors.get(past.name);
      if (!tensor || (tokens === 0 && !cross)) continue;
      // Some models keep a window of the last tokens only.
      if (!cross && tensor.dims[axis] !== of) {
        throw invalidArgument(
          `"${past.name}" holds ${tensor.dims[axis]} of ${of} tokens`,
          past.name,
          'Make a new Decoder and append the tokens again.',
        );
      }
      left.set(past.name, cross ? tensor : sliced(tensor, axis, tokens));
    }
    this.#tensors = left;
  }

  clone(): TensorPast {
    return new TensorPast(this.#session, this.#memory, this.#tensors);
  }

  dispose(): void {
    this.#tensors = new Map();
  }
}

/** The members of WorkerState that a decoder uses. */
interface RemoteState {
  run(
    feeds: Readonly<Record<string, TensorLike>>,
    fetches: readonly string[],
    options: { signal?: AbortSignal },
  ): Promise<Record<string, Tensor>>;
  pairs(): Promise<readonly { past: string; present: string }[]>;
  load(tensors: Readonly<Record<string, Tensor>>): Promise<void>;
  truncate(tokens: number): Promise<void>;
  clone(): Promise<RemoteState>;
  dispose(): Promise<void>;
}

/** A past in a Worker. Every step waits for those before it, and a step that fails makes the next run fail. */
class WorkerPast implements Past {
  #past: Promise<RemoteState | TensorPast>;

  constructor(past: Promise<RemoteState | TensorPast>) {
    this.#past = past;
    past.catch(() => {});
  }

  async run(
    feeds: Readonly<Record<string, TensorLike>>,
    output: string,
    signal: AbortSignal | undefined,
  ): Promise<Tensor> {
    const past = await this.#past;
    if (past instanceof TensorPast) return past.run(feeds, output, signal);
    return (await past.run(feeds, [output], signal ? { signal } : {}))[output]!;
  }

  take(outputs: Readonly<Record<string, Tensor>>): void {
    this.#then(async (past) => {
      if (past instanceof TensorPast) return past.take(outputs);
      const tensors: Record<string, Tensor> = {};
      for (const pair of await past.pairs()) tensors[pair.past] = outputs[pair.present]!;
      return past.load(tensors);
    });
  }

  truncate(tokens: number, of: number): void {
    this.#then((past) => past.truncate(tokens, of));
  }

  clone(): Past {
    return new WorkerPast(
      this.#past.then(async (past): Promise<RemoteState | TensorPast> => past.clone()),
    );
  }

  dispose(): void {
    this.#then((past) => past.dispose());
  }

  #then(step: (past: RemoteState | TensorPast) => void | Promise<void>): void {
    this.#past = this.#past.then(async (past) => {
      await step(past);
      return past;
    });
    this.#past.catch(() => {});
  }
}

/** @internal The past of a decoder that has read nothing. */
export function pastOfSession(
  session: InferenceSession,
  memory: readonly Memory[],
  options: StateOptions,
): Past {
  // Objects that only look like sessions have none.
  if (typeof session.state !== 'function') {
    if (options.bits !== 8) return new TensorPast(session, memory);
    throw invalidArgument('the session keeps no past in 8 bits', 'bits', 'Leave out `bits`.');
  }
  const pairs = memory.map(({ past, present, axis, cross }) => {
    return { past: past.name, present, axis, once: cross };
  });
  const asTensors = (error: unknown) => {
    if (!(error instanceof RequantError) || error.code !== 'UNSUPPORTED' || options.bits === 8) {
      throw error;
    }
    return new TensorPast(session, memory);
  };
  try {
    // A session of createWorker() gives a promise.
    const state = session.state(pairs, options) as SessionState | Promise<RemoteState>;
    if (!('then' in state)) return new EnginePast(state);
    return new WorkerPast(state.catch(asTensors));
  } catch (error) {
    return asTensors(error);
  }
}

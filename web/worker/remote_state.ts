/// <reference lib="esnext.disposable" preserve="true" />

// The state of a session that lives in a worker.

import type { Tensor } from '../base/tensor.js';
import type { TensorLike } from '../base/tensor_like.js';
import type { Feeds } from '../engine/tensors.js';
import { type Fetches, type RunOptions, fillTargets, runArguments } from '../session/fetches.js';
import type { Plan } from '../session/plan.js';
import type { StateEntry } from '../session/state.js';
import { type Owner, Remote } from './remote_object.js';
import { tensorsOf } from './remote_tensor.js';
import { type PackedFeeds, packFeeds, unpackFeeds } from './worker_protocol.js';

/** A {@link SessionState} in a worker, with the same members as asynchronous methods. */
export class WorkerState extends Remote {
  /** Names of the outputs that runs return. */
  readonly #outputs: readonly string[];

  /** @internal */
  constructor(worker: Owner, ref: number, outputs: readonly string[]) {
    super(worker, ref);
    this.#outputs = outputs;
  }

  /** As {@link SessionState.run}; the past stays in the worker, and the calling thread stays free. */
  run(feeds: Feeds, options?: RunOptions): Promise<Record<string, Tensor>>;
  run(
    feeds: Feeds,
    fetches: Fetches | undefined,
    options?: RunOptions,
  ): Promise<Record<string, Tensor>>;
  async run(
    feeds: Feeds,
    second?: Fetches | RunOptions,
    third?: RunOptions,
  ): Promise<Record<string, Tensor>> {
    const { targets, options } = runArguments(second, third, this.#outputs);
    const placed = tensorsOf(this.worker);
    const args = [packFeeds(feeds, placed), targets && [...targets.keys()]];
    const { signal } = options;
    const uses = Object.values(feeds);
    const outputs = await this.call<PackedFeeds>('runState', args, { signal, uses });
    return fillTargets(unpackFeeds(outputs, placed), targets);
  }

  /** As {@link SessionState.pairs}. */
  pairs(): Promise<StateEntry[]> {
    return this.call('statePairs');
  }

  /** As {@link SessionState.tokens}. */
  tokens(): Promise<number> {
    return this.call('stateTokens');
  }

  /** As {@link SessionState.bytes}. */
  bytes(): Promise<number> {
    return this.call('stateBytes');
  }

  /** As {@link SessionState.plan}. */
  plan(): Promise<Plan | undefined> {
    return this.call('statePlan');
  }

  /** As {@link SessionState.truncate}. */
  truncate(tokens: number): Promise<void> {
    return this.call('truncateState', [tokens]);
  }

  /** As {@link SessionState.select}. */
  select(indices: readonly number[]): Promise<void> {
    return this.call('selectState', [[...indices]]);
  }

  /** As {@link SessionState.clone}; the copy is in the worker. */
  async clone(): Promise<WorkerState> {
    return new WorkerState(this.worker, await this.call('cloneState'), this.#outputs);
  }

  /** As {@link SessionState.toTensors}. */
  async toTensors(): Promise<Record<string, Tensor>> {
    return unpackFeeds(await this.call<PackedFeeds>('stateTensors'));
  }

  /** As {@link SessionState.load}. */
  load(tensors: Readonly<Record<string, TensorLike>>): Promise<void> {
    const args = [packFeeds(tensors, tensorsOf(this.worker))];
    return this.call('loadState', args, { uses: Object.values(tensors) });
  }
}

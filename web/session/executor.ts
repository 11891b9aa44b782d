// What computes a session's runs: the core on this thread, or a Worker.

import type { Source } from '../base/source.js';
import type { Tensor } from '../base/tensor.js';
import type { Feeds } from '../engine/tensors.js';
import type { BoundRun } from './bound_run.js';
import type { Targets } from './fetches.js';
import type { Plan, StepProfile, ValueMetadata } from './plan.js';
import type { SessionState, StateOptions } from './state.js';
import type { StatePair } from './state_pairs.js';
import type { SessionOptions } from './session_options.js';

/** @internal */
export interface Executor {
  readonly inputs: readonly ValueMetadata[];
  readonly outputs: readonly ValueMetadata[];
  /** The outputs, or those in `targets`; a target of its own is filled and returned. */
  run(
    feeds: Feeds,
    targets: Targets | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Record<string, Tensor>>;
  bind(feeds: Feeds, targets: Targets | undefined): BoundRun;
  state(pairs: readonly StatePair[], options: StateOptions): SessionState;
  plan(): Plan | undefined;
  profile(): StepProfile[];
  /** As profile(), where that may take time. */
  fetchProfile(): Promise<StepProfile[]>;
  toPlan(): Uint8Array<ArrayBuffer>;
  dispose(): Promise<void> | void;
}

/** @internal Makes executors of files elsewhere than on this thread. */
export type Proxy = (source: Source, options: SessionOptions) => Promise<Executor>;

let proxy: Proxy | undefined;

/** @internal Sets what makes the executors of new sessions of files; undefined: this thread. */
export function useProxy(made: Proxy | undefined): void {
  proxy = made;
}

/** @internal What useProxy() was given last. */
export function currentProxy(): Proxy | undefined {
  return proxy;
}

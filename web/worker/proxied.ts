// env.wasm.proxy: sessions of files in a Worker of the package's own.

import { RequantError } from '../base/errors.js';
import type { Source } from '../base/source.js';
import type { Tensor } from '../base/tensor.js';
import { type Env, env as settings } from '../engine/env.js';
import type { Feeds } from '../engine/tensors.js';
import type { BoundRun } from '../session/bound_run.js';
import { type Executor, useProxy } from '../session/executor.js';
import type { Targets } from '../session/fetches.js';
import type { Plan, StepProfile, ValueMetadata } from '../session/plan.js';
import type { SessionOptions } from '../session/session_options.js';
import type { SessionState } from '../session/state.js';
import type { WorkerSession } from './remote.js';
import { type RequantWorker, createWorker } from './worker.js';

function notHere(method: string): RequantError {
  return new RequantError('UNSUPPORTED', `${method}() is not for sessions in a Worker`, {
    value: 'env.wasm.proxy',
    hint: 'Set env.wasm.proxy to false, or use createWorker(), whose sessions have it as an asynchronous method.',
  });
}

/** A session in the Worker. */
class ProxiedExecutor implements Executor {
  readonly inputs: readonly ValueMetadata[];
  readonly outputs: readonly ValueMetadata[];
  readonly #session: WorkerSession;

  constructor(session: WorkerSession) {
    this.#session = session;
    this.inputs = Object.freeze(session.inputMetadata);
    this.outputs = Object.freeze(session.outputMetadata);
  }

  run(
    feeds: Feeds,
    targets: Targets | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Record<string, Tensor>> {
    return this.#session.runTargets(feeds, targets, signal);
  }

  bind(): BoundRun {
    throw notHere('bind');
  }

  state(): SessionState {
    throw new RequantError('UNSUPPORTED', 'a session in a Worker of env.wasm.proxy has no state', {
      value: 'env.wasm.proxy',
      hint: 'Set env.wasm.proxy to false, and run in a Worker of your own.',
    });
  }

  plan(): Plan | undefined {
    throw notHere('plan');
  }

  profile(): StepProfile[] {
    throw notHere('profile');
  }

  fetchProfile(): Promise<StepProfile[]> {
    return this.#session.profile();
  }

  toPlan(): Uint8Array<ArrayBuffer> {
    throw notHere('toPlan');
  }

  dispose(): Promise<void> {
    return this.#session.dispose();
  }
}

let worker: Promise<RequantWorker> | undefined;

async function proxied(source: Source, options: SessionOptions): Promise<Executor> {
  worker ??= createWorker();
  let started: RequantWorker;
  try {
    started = await worker;
  } catch (error) {
    worker = undefined; // the next session tries again
    throw error;
  }
  return new ProxiedExecutor(await started.createSession(source, options));
}

let proxy = false;

/** Settings of the whole package, in the manner of onnxruntime-web. */
export const env: Env = Object.defineProperty(settings, 'wasm', {
  enumerable: true,
  value: Object.defineProperty(settings.wasm, 'proxy', {
    enumerable: true,
    get: () => proxy,
    set(value: boolean | undefined) {
      proxy = Boolean(value);
      useProxy(proxy ? proxied : undefined);
    },
  }),
});

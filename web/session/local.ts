// Runs of sessions on the calling thread.

import { throwIfAborted } from '../base/abort.js';
import { RequantError, invalidArgument } from '../base/errors.js';
import type { Tensor } from '../base/tensor.js';
import type { CoreResult, CoreSession } from '../core.js';
import { Handle, takeBlob } from '../engine/heap.js';
import { type Feeds, type OwnFeeds, ownFeeds, viewOf, withFeeds } from '../engine/tensors.js';
import type { ValueInfo } from '../model/model_info.js';
import { BoundRun } from './bound_run.js';
import { CoreRun } from './core_run.js';
import type { Executor } from './executor.js';
import { type Targets, takeResults } from './fetches.js';
import type { Plan, StepProfile, ValueMetadata } from './plan.js';
import type { SessionOptions } from './session_options.js';
import { SessionState, type StateOptions } from './state.js';
import type { StatePair } from './state_pairs.js';

function metadata(info: readonly ValueInfo[]): readonly ValueMetadata[] {
  return Object.freeze(
    info.map(({ name, type, dims }) =>
      Object.freeze({ name, isTensor: true as const, type, shape: Object.freeze([...dims]) }),
    ),
  );
}

/** @internal A session of the core. */
export class LocalExecutor implements Executor {
  readonly inputs: readonly ValueMetadata[];
  readonly outputs: readonly ValueMetadata[];
  readonly #handle: Handle<CoreSession>;
  readonly #staysInEngine: (name: string) => boolean;
  #last: CoreRun | undefined;
  #bindable = true;

  /**
   * Takes the handle over, and disposes of it if it throws INVALID_ARGUMENT for a tap that is not there.
   *
   * @param locations The option preferredOutputLocation.
   */
  constructor(
    handle: Handle<CoreSession>,
    taps: readonly string[],
    modelOutputs: readonly string[],
    locations: SessionOptions['preferredOutputLocation'],
  ) {
    this.#handle = handle;
    this.#staysInEngine = (name) =>
      (typeof locations === 'object' ? locations[name] : locations) === 'engine';
    try {
      const info = handle.json<{ inputs: ValueInfo[]; outputs: ValueInfo[] }>((session) =>
        session.info(),
      );
      const missing = taps.find((tap) => !info.outputs.some(({ name }) => name === tap));
      if (missing !== undefined) {
        throw invalidArgument(
          `there is no value "${missing}" to tap`,
          missing,
          'Optimization may have removed it: then use optimize: false.',
        );
      }
      const isTap = new Set(taps.filter((tap) => !modelOutputs.includes(tap)));
      this.inputs = metadata(info.inputs);
      this.outputs = metadata(info.outputs.filter(({ name }) => !isTap.has(name)));
    } catch (error) {
      handle.dispose();
      throw error;
    }
  }

  // An async function turns what it throws into a rejection.
  async run(
    feeds: Feeds,
    targets: Targets | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Record<string, Tensor>> {
    throwIfAborted(signal);
    const { core } = this.#handle;
    const results = this.#compute(ownFeeds(feeds));
    return takeResults(core, results, targets, this.#staysInEngine);
  }

  // Feeds with the names, types and shapes of the last ones reuse the run that was prepared for those.
  #compute(feeds: OwnFeeds): readonly CoreResult[] {
    const tensors = Object.values(feeds);
    if (tensors.some(({ type }) => type === 'string')) return this.#computeOnce(feeds);
    if (!this.#last?.fits(feeds)) {
      this.#last?.dispose();
      this.#last = undefined;
      try {
        if (this.#bindable) this.#last = new CoreRun(this.#handle, feeds);
      } catch (error) {
        if ((error as RequantError).code !== 'UNSUPPORTED') throw error;
        this.#bindable = false; // shapes of outputs depend on data
      }
    }
    if (this.#last?.alive) {
      this.#last.run(tensors.map(viewOf));
      return this.#last.results;
    }
    return this.#computeOnce(feeds);
  }

  #computeOnce(feeds: OwnFeeds): readonly CoreResult[] {
    return withFeeds(this.#handle.core, feeds, (coreFeeds) =>
      this.#handle.call((session) => session.run(...coreFeeds)),
    );
  }

  bind(feeds: Feeds, targets: Targets | undefined): BoundRun {
    return new BoundRun(this.#handle, ownFeeds(feeds), targets, this.#staysInEngine);
  }

  state(pairs: readonly StatePair[], { capacity = 0, bits = 32 }: StateOptions): SessionState {
    const { core } = this.#handle;
    const given = pairs.map(({ past, present, axis = -1, once = false }) => {
      return { past, present, axis, once, coded: bits === 8 && !once };
    });
    // A model without the extended operators has no pair that could stay in place, nor their code.
    if (typeof core.createState !== 'function') {
      throw new RequantError('UNSUPPORTED', 'the model has no operator that reads a past', {
        hint: 'Feed the outputs of the last run to InferenceSession.run instead.',
      });
    }
    const state = this.#handle.call((session) => core.createState(session, given, capacity));
    return new SessionState(
      new Handle(core, state, 'state'),
      this.outputs.map(({ name }) => name),
      this.#staysInEngine,
    );
  }

  plan(): Plan | undefined {
    const plan = this.#handle.json<Partial<Plan>>((session) => session.plan());
    return plan.steps ? (plan as Plan) : undefined;
  }

  profile(): StepProfile[] {
    // The core lists all steps of its plan, including those that nobody measured.
    const steps = this.#handle.json<StepProfile[]>((session) => session.profile());
    return steps.some(({ runs }) => runs > 0) ? steps : [];
  }

  fetchProfile(): Promise<StepProfile[]> {
    return Promise.resolve(this.profile());
  }

  toPlan(): Uint8Array<ArrayBuffer> {
    return takeBlob(
      this.#handle.core,
      this.#handle.call((session) => session.save()),
    );
  }

  dispose(): void {
    this.#handle.dispose();
  }
}

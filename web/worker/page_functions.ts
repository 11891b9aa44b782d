// Functions of metrics, which cannot be sent to a worker: the worker asks, and the page calls them.

import type { CompareSample } from '../analyze/compare.js';
import { checkIterable } from '../base/abort.js';
import { RequantError, show } from '../base/errors.js';
import { checkKind, withoutUndefined } from '../base/options.js';
import type { MetricSpec } from '../metrics/table.js';
import type { Marked, Packed } from './asked_functions.js';
import { packFeeds, unpackFeeds } from './worker_protocol.js';

type Callable = (...args: unknown[]) => unknown;

/** The page's side: functions by name, and the samples that they get. */
export class PageFunctions {
  readonly #functions = new Map<string, Callable>();
  readonly #samples = new Map<number, unknown>();
  #count = 0;

  /** The metric without its functions, to be sent. */
  plain(metric: MetricSpec | undefined): unknown {
    if (typeof metric !== 'object' || metric === null) return metric;
    const members = Object.entries(metric).map(([key, value]): [string, unknown] => {
      if (typeof value !== 'function') return [key, value];
      const name = `${key}${this.#functions.size}`;
      this.#functions.set(name, value as Callable);
      return [key, { pageFunction: name } satisfies Marked];
    });
    const plain = Object.fromEntries(members);
    if ('measure' in metric && typeof metric.measure === 'function') {
      plain['needsFloat'] ??= metric.measure.length > 2;
    }
    return plain;
  }

  /** Notes a sample that is sent; only the latest ones are kept where `most` says so. */
  note(sample: unknown, most = Infinity): void {
    this.#samples.set(this.#count, sample);
    this.#samples.delete(this.#count - most);
    this.#count += 1;
  }

  /** Calls a function for the worker. */
  answer(name: string, args: readonly Packed[]): unknown {
    const call = this.#functions.get(name);
    if (!call) throw new RequantError('INTERNAL', `the worker asks for ${show(name)}`);
    const unpacked = args.map((arg) => {
      if ('tensors' in arg) return unpackFeeds(arg.tensors);
      return 'sample' in arg ? this.#samples.get(arg.sample) : arg.value;
    });
    return call(...unpacked);
  }
}

/** A sample in a form that messages can hold. */
export const packSample = (sample: CompareSample) => ({
  ...sample,
  feeds: packFeeds(sample?.feeds),
});

/** Options of long work that are sent in another form. */
interface KeptOptions {
  validation?: Iterable<CompareSample> | AsyncIterable<CompareSample>;
  onCheckpoint?: (state: Uint8Array, done: number) => void | Promise<void>;
  metric?: MetricSpec;
}

/** The options to send, the samples that are sent together, and what to do with progress. */
export async function keptOf<T extends KeptOptions, P>(
  options: T,
  functions: PageFunctions,
  onProgress: ((progress: P) => void) | undefined,
) {
  const { validation, onCheckpoint, metric, ...rest } = options;
  if (validation !== undefined) checkIterable(validation, 'options.validation');
  if (onCheckpoint !== undefined) checkKind(onCheckpoint, 'function', 'options.onCheckpoint');
  const packed: unknown[] | undefined = validation && [];
  for await (const sample of validation ?? []) {
    functions.note(sample);
    packed!.push(packSample(sample));
  }
  return {
    plain: withoutUndefined({ ...rest, metric: functions.plain(metric) }),
    kept: { validation: packed, checkpoints: onCheckpoint !== undefined },
    progress: (value: P | { checkpoint: Uint8Array; done: number }) => {
      const saved = value as { checkpoint?: Uint8Array; done: number };
      if (saved.checkpoint) void onCheckpoint?.(saved.checkpoint, saved.done);
      else onProgress?.(value as P);
    },
  };
}

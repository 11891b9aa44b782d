// Records of the fastest kernels for operators' shapes on a device: their form, their storage, and which of
// them apply here.

import { invalidArgument, show } from '../base/errors.js';
import { withoutUndefined } from '../base/options.js';
import { importNode, isNode, nodeVersion } from '../base/host.js';
import { type Database, checkStore, readStored, writeStored } from '../base/store.js';
import { version } from '../base/version.js';
import type { Core, CoreSessionOptions } from '../core.js';
import type { EngineInfo } from '../engine/engine_info.js';
import { call } from '../engine/heap.js';
import { threadsOf, variantOf } from '../engine/load_core.js';

/** The fastest kernel for one shape of operator on one device. */
export interface TuningRecord {
  kernel: string;
  /** How many times as fast it is as the kernel chosen without records, at the median; 1 for that kernel. */
  faster: number;
  /** The most threads to divide it among, where fewer are faster than all. */
  threads?: number;
  /** Windows that a convolution should gather at a time, a multiple of 60. */
  panel?: number;
  /** How values of few codes that it computes should be stored: a byte each, or packed where possible. */
  output?: 'bytes' | 'packed';
}

/**
 * Records by device and by shape: JSON to be kept, merged and shipped with a model. Records that are wrong or
 * for another version or device have no effect; results never depend on them.
 */
export interface Tuning {
  version: 1;
  /** For each {@link deviceName}, records by the `tuning` of a plan's step. */
  devices: Record<string, Record<string, TuningRecord>>;
}

/** @internal Throws INVALID_ARGUMENT for a value that is no tuning. */
export function checkTuning(tuning: unknown, name: string): asserts tuning is Tuning {
  const { version: form, devices } = (tuning ?? {}) as Partial<Tuning>;
  if (form !== 1 || typeof devices !== 'object' || devices === null) {
    throw invalidArgument(`${name} is ${show(tuning)}`, name, 'Give what tune() returned.');
  }
}

/** A kernel that only machines have whose dot products are exact for whole bytes. */
const DOT8 = 'conv_q8_dot8';
const dot8 = new WeakMap<Core, boolean>();

/** Whether this machine has that kernel; asked only once. */
function hasDot8(core: Core): boolean {
  if (!dot8.has(core)) {
    const kernels = JSON.parse(call(core, () => core.kernels())) as EngineInfo['kernels'];
    const has = kernels.some(({ name, missing }) => name === DOT8 && !missing);
    dot8.set(core, has);
  }
  return dot8.get(core)!;
}

/**
 * @internal Everything that a record depends on beside the shape: the engine, its kernels and threads, and
 * the processor as far as it can be known.
 */
export async function deviceName(core: Core): Promise<string> {
  const parts = [`requant ${version}`, variantOf(core), ...(hasDot8(core) ? ['dot8'] : [])];
  parts.push(`threads ${threadsOf(core)}`);
  if (isNode) {
    const os = await importNode<typeof import('node:os')>('os');
    parts.push(`Node ${nodeVersion?.split('.')[0]}`, os.cpus()[0]?.model ?? os.arch());
  } else {
    parts.push(navigator.userAgent, `cores ${navigator.hardwareConcurrency}`);
  }
  return parts.join(', ');
}

type TunedStepOptions = NonNullable<CoreSessionOptions['tuned']>[string];

/** A number of a record, or undefined if it is not plausible. */
function count(value: number | undefined, limit: number): number | undefined {
  return Number.isInteger(value) && value! > 0 && value! < limit ? value : undefined;
}

/** @internal The records that apply to this device, by the steps' `tuning`. */
export async function tunedSteps(
  core: Core,
  tuning: Tuning | undefined,
): Promise<NonNullable<CoreSessionOptions['tuned']>> {
  const tuned: Record<string, TunedStepOptions> = {};
  if (tuning === undefined) return tuned;
  checkTuning(tuning, 'options.tuning');
  const records = Object.entries(tuning.devices[await deviceName(core)] ?? {});
  for (const [step, record] of records) {
    if (typeof record?.kernel !== 'string') continue;
    const { kernel, threads, panel, output } = record;
    tuned[step] = withoutUndefined({
      kernel,
      threads: count(threads, 1000),
      panel: count(panel, 1e5),
      output: output === 'bytes' || output === 'packed' ? output : undefined,
    }) as TunedStepOptions;
  }
  return tuned;
}

/**
 * Merges the records of both; where both have one, `newer` wins.
 *
 * @throws RequantError INVALID_ARGUMENT for a value that is no tuning.
 */
export function mergeTunings(older: Tuning, newer: Tuning): Tuning {
  checkTuning(older, 'older');
  checkTuning(newer, 'newer');
  const devices = { ...older.devices };
  for (const [device, records] of Object.entries(newer.devices)) {
    devices[device] = { ...devices[device], ...records };
  }
  return { version: 1, devices };
}

const WHERE: Database = { database: 'requant', store: 'tuning' };

/**
 * @internal Reads stored records: from a file in Node, from IndexedDB in browsers. A cache that is missing or
 * damaged is empty.
 */
export async function readTuning(name: string): Promise<Tuning> {
  try {
    const stored = await readStored(WHERE, name);
    const kept: unknown =
      stored instanceof Uint8Array ? JSON.parse(new TextDecoder().decode(stored)) : stored;
    checkTuning(kept, name);
    return kept;
  } catch {
    return { version: 1, devices: {} };
  }
}

/** @internal Throws SAVE_FAILED if records cannot be stored, before they are measured. */
export function checkCache(name: string): Promise<void> {
  return checkStore(WHERE, name);
}

/** @internal */
export function writeTuning(name: string, tuning: Tuning): Promise<void> {
  const file = () => `${JSON.stringify(tuning, null, 2)}\n`;
  return writeStored(WHERE, name, { file, value: tuning });
}

// Sessions of plans that were saved.

import { RequantError, invalidArgument } from '../base/errors.js';
import type { Core, CoreSession } from '../core.js';
import { call, copyIn } from '../engine/heap.js';
import type { SessionOptions } from './session_options.js';

// Options that a plan was made with, which cannot change when it is loaded.
const planned = [
  'requantize',
  'fuse',
  'optimize',
  'compact',
  'halfWeights',
  'accuracyLevel',
  'kernels',
  'tuning',
  'taps',
  'externalData',
  'freeDimensionOverrides',
  'quantize',
] as const;

export function loadPlan(
  core: Core,
  bytes: Uint8Array,
  options: SessionOptions,
  threads: number,
): CoreSession {
  const given = planned.find((key) => options[key] !== undefined);
  if (given) {
    throw invalidArgument(
      `a saved plan was made with its own option "${given}"`,
      `options.${given}`,
      'Give it to the session whose plan is saved.',
    );
  }
  const pointer = copyIn(core, bytes);
  try {
    const { enableProfiling = false, profile = enableProfiling } = options;
    return call(core, () => core.loadPlan(pointer, bytes.length, { profile, threads }));
  } catch (error) {
    const { code, message, hint } = error as RequantError;
    if (code !== 'INVALID_MODEL' && code !== 'UNSUPPORTED') throw error;
    throw new RequantError('INVALID_PLAN', message, {
      hint: hint || 'create the session from the model again',
      cause: error,
    });
  }
}

// The options of sessions, and their checks.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { checkOneOf } from '../base/options.js';
import { type LoadOptions, loadOptionKinds } from '../model/load_options.js';
import { type PlanningOptions, planningOptionKinds } from '../model/planning.js';

/**
 * Options that programs written for onnxruntime-web may pass. Only the first has a meaning here; the values
 * of two more are checked.
 */
export interface OrtSessionOptions {
  /** `'wasm'` must be among them, the only provider here. */
  executionProviders?: readonly (string | { readonly name: string })[];
  graphOptimizationLevel?: 'disabled' | 'basic' | 'extended' | 'layout' | 'all';
  executionMode?: 'sequential' | 'parallel';
  enableCpuMemArena?: boolean;
  enableMemPattern?: boolean;
  interOpNumThreads?: number;
  intraOpNumThreads?: number;
  logId?: string;
  logSeverityLevel?: number;
  logVerbosityLevel?: number;
}

/**
 * Options of {@link InferenceSession.create}. For a model in memory `numThreads` can be at most what its
 * engine can start, and by default is what that has; it is 1 if the model was loaded for one thread.
 */
export interface SessionOptions extends LoadOptions, PlanningOptions, OrtSessionOptions {
  /** Whether to measure every operator; see {@link InferenceSession.profile}. */
  profile?: boolean;
  /** Names of inner values that run() returns as well. */
  taps?: readonly string[];
}

/** @internal */
export const sessionOptionKinds = {
  ...loadOptionKinds,
  ...planningOptionKinds,
  profile: 'boolean',
  taps: 'strings',
  // Options of OrtSessionOptions.
  executionProviders: 'any',
  graphOptimizationLevel: 'any',
  executionMode: 'any',
  enableCpuMemArena: 'any',
  enableMemPattern: 'any',
  interOpNumThreads: 'any',
  intraOpNumThreads: 'any',
  logId: 'any',
  logSeverityLevel: 'any',
  logVerbosityLevel: 'any',
} as const;

/** @internal Throws INVALID_ARGUMENT for values that onnxruntime-web would not take either. */
export function checkOrtOptions(options: OrtSessionOptions): void {
  const { graphOptimizationLevel: level, executionMode: mode } = options;
  const levels = ['disabled', 'basic', 'extended', 'layout', 'all'];
  if (level !== undefined) checkOneOf(level, levels, 'options.graphOptimizationLevel');
  if (mode !== undefined) checkOneOf(mode, ['sequential', 'parallel'], 'options.executionMode');
  checkProviders(options.executionProviders);
}

/** Throws UNSUPPORTED if the list lacks wasm, the only provider here. */
function checkProviders(providers: unknown): void {
  if (providers === undefined) return;
  const option = 'options.executionProviders';
  if (!Array.isArray(providers)) {
    throw invalidArgument(`${option} must be an array, not ${show(providers)}`, option);
  }
  const names = (providers as OrtSessionOptions['executionProviders'])!.map((provider) =>
    typeof provider === 'string' ? provider : provider?.name,
  );
  if (names.includes('wasm')) return;
  throw new RequantError('UNSUPPORTED', `there is no execution provider ${names.join(', ')}`, {
    value: option,
    hint: "Everything runs in 'wasm': leave the option out.",
  });
}

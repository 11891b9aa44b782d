// The options of sessions, and their checks.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { warnOnce } from '../base/log.js';
import { MOST_INT, checkInteger, checkKind, checkOneOf, checkOptions } from '../base/options.js';
import { type LoadOptions, loadOptionKinds } from '../model/load_options.js';
import { type PlanningOptions, checkRequantize, planningOptionKinds } from '../model/planning.js';
import { type SessionQuantization, checkQuantization } from './quantize_first.js';

/** Where an output can be: in onnxruntime-web, or in the engine. */
export type OutputLocation =
  'none' | 'cpu' | 'cpu-pinned' | 'texture' | 'gpu-buffer' | 'ml-tensor' | 'engine';

/** Options that programs written for onnxruntime-web may pass. */
export interface OrtSessionOptions {
  /**
   * The first of `'wasm'` and `'cpu'` in the list runs the session; they mean the same. Providers before it
   * are left out with a warning, once each. Without either of the two in a list that is not empty, `create`
   * throws UNSUPPORTED.
   */
  executionProviders?: readonly (string | { readonly name: string })[];
  /** Sizes of symbolic dimensions of the inputs, by their names: shapes that follow are then known. */
  freeDimensionOverrides?: Readonly<Record<string, number>>;
  /** `'disabled'` is `optimize: false`; the others are its default. */
  graphOptimizationLevel?: 'disabled' | 'basic' | 'extended' | 'layout' | 'all';
  /** As `profile`; {@link InferenceSession.endProfiling} gives the trace. */
  enableProfiling?: boolean;
  /** Where {@link InferenceSession.endProfiling} saves the trace: this text, the date and ".json". */
  profileFilePrefix?: string;
  /** Where to save the optimized graph: a path in Node, the name of a download in a page. */
  optimizedModelFilePath?: string;
  /**
   * Where outputs are, all or by name: `'engine'` keeps them in the engine's memory, where they are fed to the
   * next run without leaving it ({@link Tensor.getData} copies them out, {@link Tensor.dispose} gives the memory
   * back). Default: `'cpu'`, memory of JavaScript. Places on a GPU have no effect, with a warning.
   */
  preferredOutputLocation?: OutputLocation | Readonly<Record<string, OutputLocation>>;
  /** From 0 (verbose) to 4 (fatal): from 3 on, warnings about this session are not written. */
  logSeverityLevel?: number;
  // Options without meaning here.
  executionMode?: 'sequential' | 'parallel';
  enableCpuMemArena?: boolean;
  enableMemPattern?: boolean;
  enableGraphCapture?: boolean;
  extra?: Readonly<Record<string, unknown>>;
  interOpNumThreads?: number;
  intraOpNumThreads?: number;
  logId?: string;
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
  /** Quantizes the float model first; see {@link SessionQuantization}. */
  quantize?: SessionQuantization;
  /**
   * Where the model that `quantize` makes is kept: a file in Node, a key of IndexedDB in browsers. It is taken
   * from there if it was made from the same file with the same options. Samples are compared if they are an
   * array; other samples need another name.
   */
  cache?: string;
}

/** @internal */
export const sessionOptionKinds = {
  ...loadOptionKinds,
  ...planningOptionKinds,
  profile: 'boolean',
  taps: 'strings',
  quantize: 'any',
  cache: 'string',
  // Options of OrtSessionOptions.
  executionProviders: 'any',
  freeDimensionOverrides: 'object',
  graphOptimizationLevel: 'any',
  enableProfiling: 'boolean',
  profileFilePrefix: 'string',
  optimizedModelFilePath: 'string',
  preferredOutputLocation: 'any',
  enableGraphCapture: 'any',
  extra: 'any',
  executionMode: 'any',
  enableCpuMemArena: 'any',
  enableMemPattern: 'any',
  interOpNumThreads: 'any',
  intraOpNumThreads: 'any',
  logId: 'any',
  logSeverityLevel: 'any',
  logVerbosityLevel: 'any',
} as const;

const levels = ['disabled', 'basic', 'extended', 'layout', 'all'];
const locations: readonly OutputLocation[] = [
  'none',
  'cpu',
  'cpu-pinned',
  'texture',
  'gpu-buffer',
  'ml-tensor',
  'engine',
];

/** @internal Throws INVALID_ARGUMENT or UNSUPPORTED for options that cannot be followed. */
export function checkSessionOptions(options: SessionOptions): void {
  checkOptions(options, sessionOptionKinds, 'options');
  checkRequantize(options.requantize, 'options.requantize');
  checkQuantization(options.quantize, options.cache);
  const {
    graphOptimizationLevel: level,
    executionMode: mode,
    logSeverityLevel: severity,
  } = options;
  if (level !== undefined) checkOneOf(level, levels, 'options.graphOptimizationLevel');
  if (mode !== undefined) checkOneOf(mode, ['sequential', 'parallel'], 'options.executionMode');
  checkInteger(severity, 0, 4, 'options.logSeverityLevel');
  for (const [name, size] of Object.entries(options.freeDimensionOverrides ?? {})) {
    checkInteger(size, 0, MOST_INT, `options.freeDimensionOverrides.${name}`);
  }
  checkProviders(options.executionProviders, severity);
  checkLocations(options.preferredOutputLocation, severity);
}

/** Throws UNSUPPORTED if the list has providers, but none of those that are here. */
function checkProviders(providers: unknown, severity: number | undefined): void {
  if (providers === undefined) return;
  const option = 'options.executionProviders';
  if (!Array.isArray(providers)) {
    throw invalidArgument(`${option} must be an array, not ${show(providers)}`, option);
  }
  const names = providers.map((provider: unknown) =>
    typeof provider === 'string' ? provider : (provider as { name?: unknown } | null)?.name,
  );
  const wrong = names.findIndex((name) => typeof name !== 'string');
  if (wrong >= 0) checkKind(names[wrong], 'string', `${option}[${wrong}]`);
  const found = names.findIndex((name) => name === 'wasm' || name === 'cpu');
  if (names.length > 0 && found < 0) {
    // onnxruntime-web's error begins with the same words, which programs look for.
    throw new RequantError('UNSUPPORTED', `no available backend found: ${names.join(', ')}`, {
      value: option,
      hint: "Everything runs in 'wasm': add it to the list, or leave the option out.",
    });
  }
  for (const name of names.slice(0, Math.max(found, 0))) {
    warnOnce(
      `there is no execution provider ${String(name)}; ${names[found] as string} takes its place`,
      severity,
    );
  }
}

/** Warns of places where outputs will not be. */
function checkLocations(preferred: unknown, severity: number | undefined): void {
  if (preferred === undefined) return;
  const option = 'options.preferredOutputLocation';
  if (typeof preferred !== 'string') checkKind(preferred, 'object', option);
  const all = typeof preferred === 'string' ? [preferred] : Object.values(preferred as object);
  for (const location of all) {
    checkOneOf(location, locations, option);
    if (['none', 'cpu', 'cpu-pinned', 'engine'].includes(location as string)) continue;
    warnOnce(`outputs are on the CPU, not as ${String(location)}`, severity);
  }
}

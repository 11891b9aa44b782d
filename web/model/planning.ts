// How a graph is computed: the options that sessions and saved plans share, checked and handed to the core.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { checkOneOf, suggest, withoutUndefined } from '../base/options.js';
import type { Core, CoreModel, CoreSession, CoreSessionOptions } from '../core.js';
import type { EngineInfo } from '../engine/engine_info.js';
import { call } from '../engine/heap.js';
import { loadLowBits } from '../engine/load_core.js';
import { type Tuning, tunedSteps } from './tuning.js';

/** How a graph is computed: options that sessions and {@link Model.toPlan} share. */
export interface PlanningOptions {
  /**
   * How integer operators requantize. `'float'` computes as ONNX Runtime does (default for models that were
   * loaded); `'fixed'` uses integers only (default for models quantized here); `'nearest'` computes
   * as TVM does, `'gemmlowp'` as TensorFlow Lite's reference kernels.
   */
  requantize?: RequantizeMode;
  /** Whether to fuse activations and additions into the operators before them. Default true. */
  fuse?: boolean;
  /** Whether to optimize the graph before it is planned. Default true. */
  optimize?: boolean;
  /**
   * Whether to run a model of few bits in less memory but more time: its weights stay packed even where the
   * machine is faster on whole bytes, and values of at most 16 codes lie two to a byte. Default false.
   * Results do not depend on it.
   */
  compact?: boolean;
  /**
   * How weights of 16 bits (float16, bfloat16) lie in memory: `'keep'` in 16 bits, which become floats at every
   * run, `'widen'` as floats, `'auto'` (default) those of large layers in 16 bits. Results do not depend on it.
   */
  halfWeights?: 'auto' | 'keep' | 'widen';
  /**
   * 4: attention of at least 16 queries and 128 keys, and products with blocks of 4 bits (MatMulNBits), code what they
   * read in 8 bits, which is faster and less accurate; attention only on machines that multiply whole bytes. 0: only
   * where the model asks for it, as MatMulNBits does by its `accuracy_level` of 4. Default: what {@link quantize} and
   * {@link quantizeDynamic} have noted in the model, otherwise 0.
   */
  accuracyLevel?: 0 | 4;
  /**
   * Kernels by family: each runs every step of its family that it can. The warnings of {@link
   * InferenceSession.plan} say where other kernels run; {@link engineInfo} lists all kernels.
   */
  kernels?: Readonly<Record<string, string>>;
  /** Records of {@link tune}, which name the fastest kernels. Results do not depend on them. */
  tuning?: Tuning;
}

const requantizeModes: readonly RequantizeMode[] = ['fixed', 'float', 'nearest', 'gemmlowp'];

/** @internal Options that tune() takes as well; it forces kernels itself. */
export const tunableOptionKinds = {
  requantize: 'string',
  fuse: 'boolean',
  optimize: 'boolean',
  compact: 'boolean',
  halfWeights: 'string',
  accuracyLevel: 'integer',
  tuning: 'object',
} as const;

/** @internal */
export const planningOptionKinds = { ...tunableOptionKinds, kernels: 'object' } as const;

/** @internal Throws INVALID_ARGUMENT for an unknown mode. */
export function checkRequantize(mode: unknown, name: string): void {
  if (mode !== undefined) checkOneOf(mode, requantizeModes, name);
}

// Checks names here, since the core reads them when it plans, which for a model of open shape is its first
// run.
function checkKernels(core: Core, forced: Readonly<Record<string, string>>): void {
  const known = JSON.parse(call(core, () => core.kernels())) as EngineInfo['kernels'];
  for (const [family, name] of Object.entries(forced)) {
    const option = `options.kernels.${family}`;
    const names = known.filter((kernel) => kernel.family === family).map((kernel) => kernel.name);
    if (names.length === 0) {
      const families = [...new Set(known.map((kernel) => kernel.family))];
      throw invalidArgument(
        `there is no kernel family "${family}"`,
        option,
        suggest(family, families),
      );
    }
    checkOneOf(name, names, option);
    const missing = known.find((kernel) => kernel.name === name)?.missing;
    if (missing !== undefined) {
      throw new RequantError('UNSUPPORTED', `${name} needs ${missing}, which is not here`, {
        value: option,
      });
    }
  }
}

/** @internal Makes a session of the core; `more` has the options that only sessions have. */
export async function createCoreSession(
  core: Core,
  model: CoreModel,
  options: PlanningOptions,
  more: Omit<CoreSessionOptions, keyof PlanningOptions>,
): Promise<CoreSession> {
  const { requantize, fuse, optimize, compact, halfWeights, accuracyLevel } = options;
  const { kernels, tuning } = options;
  if (halfWeights !== undefined) {
    checkOneOf(halfWeights, ['auto', 'keep', 'widen'], 'options.halfWeights');
  }
  if (accuracyLevel !== undefined && accuracyLevel !== 0 && accuracyLevel !== 4) {
    const option = 'options.accuracyLevel';
    throw invalidArgument(`${option} is ${show(accuracyLevel)}`, option, 'Use 0 or 4.');
  }
  // The scalar kernels are in the module of the operators, which comes with the kernels for few bits.
  if (kernels) checkKernels(core, kernels);
  if (kernels || call(core, () => model.lowBits())) await loadLowBits(core);
  const coreOptions = withoutUndefined({
    ...more,
    requantize,
    fuse,
    optimize,
    compact,
    halfWeights,
    int8Activations: accuracyLevel === undefined ? undefined : accuracyLevel === 4,
    kernels: kernels && { ...kernels },
    tuned: await tunedSteps(core, tuning),
  }) as CoreSessionOptions;
  return call(core, () => core.createSession(model, coreOptions));
}

/** How the accumulators of integer operators become 8-bit values. */
export type RequantizeMode = 'fixed' | 'float' | 'nearest' | 'gemmlowp';

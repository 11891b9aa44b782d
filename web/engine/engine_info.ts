// The parts of the engine.

import { call } from './heap.js';
import { type Variant, loadCore, threadsOf, variantOf } from './load_core.js';

/** The parts and the state of the engine. */
export interface EngineInfo {
  /** The wasm module that was chosen. */
  variant: Variant;
  /** Threads that sessions can use. */
  threads: number;
  operators: { name: string; domain: string; since: number; quantize: string }[];
  /**
   * The optimization passes in their order. `bound` is the largest error of an output relative to the largest
   * value of the graph, 0 if every bit stays. An `optional` pass runs only when it is named.
   */
  passes: { name: string; summary: string; bound: number; optional: boolean }[];
  /** The kernels. `missing` is what this machine lacks for a kernel, which then cannot be forced. */
  kernels: { family: string; name: string; isa: string; missing?: string }[];
  /** Bytes that the engine's objects (models, sessions and so on) hold. */
  liveBytes: number;
}

/** Lists operators, passes and kernels by the names that options take, and the memory in use. */
export async function engineInfo(): Promise<EngineInfo> {
  const core = await loadCore();
  return {
    variant: variantOf(core),
    threads: threadsOf(core),
    operators: JSON.parse(call(core, () => core.operators())),
    passes: JSON.parse(call(core, () => core.passes())),
    kernels: JSON.parse(call(core, () => core.kernels())),
    liveBytes: core.liveBytes(),
  };
}

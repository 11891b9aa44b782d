import { call } from './heap.js';
import { type Variant, loadCore, threadsOf, variantOf } from './load_core.js';

/** What the engine consists of and how it stands. */
export interface EngineInfo {
  /** The wasm module that was chosen. */
  variant: Variant;
  /** Threads that its sessions can use. */
  threads: number;
  operators: { name: string; domain: string; since: number; quantize: string }[];
  /**
   * The optimization passes in their order. `bound`: largest error of an output relative to the
   * largest value of the graph, 0 if every bit stays. `optional`: only runs when asked for by name.
   */
  passes: { name: string; summary: string; bound: number; optional: boolean }[];
  /** `missing`: what this machine lacks for the kernel, which then cannot be forced. */
  kernels: { family: string; name: string; isa: string; missing?: string }[];
  /** Bytes that models, sessions and so on hold in the engine. */
  liveBytes: number;
}

/** Operators, passes and kernels by the names that options take, and the memory in use. */
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

// The description of a session's plan, as JSON.

import type { TensorType } from '../base/tensor.js';

/** Name, type and shape of a session's input or output, as in onnxruntime-web. */
export interface ValueMetadata {
  readonly name: string;
  readonly isTensor: true;
  readonly type: TensorType;
  /** A number, the name of a symbolic dimension, or null for an unknown one. */
  readonly shape: readonly (number | string | null)[];
}

/** One step of a session's plan. */
export interface PlanStep {
  /** Name of the operator. */
  name: string;
  op: string;
  /** Name of the kernel that computes it. */
  kernel: string;
  /** The key of {@link tune}'s records for it, where there is a choice of kernels. */
  tuning?: string;
  /** Multiply-accumulate operations of one run. */
  macs: number;
  /** Bytes of intermediate values in memory while it runs. */
  usedBytes: number;
  /** How many threads compute it. */
  threads: number;
  /** Windows that it gathers at a time, where a record of {@link tune} sets that. */
  panel?: number;
  output?: {
    name: string;
    type: TensorType;
    layout: 'plain' | 'channels-last';
    /** How codes of few bits lie: two to a byte, or as planes of bits. Left out where elements are whole. */
    packing?: 'nibbles' | 'planes';
    dims: number[];
  };
}

/** Bytes that a plan needs beside the model. */
export interface PlanMemory {
  /** Memory for all intermediate values. */
  arena: number;
  /** A lower bound for any layout of the arena. */
  lowerBound: number;
  packedWeights: number;
}

/** How a session computes its graph for the shapes of its last run. */
export interface Plan {
  steps: PlanStep[];
  memory: PlanMemory;
  /** Kernels of the option `kernels` that no step runs, or not all of their family, and what runs instead. */
  warnings: string[];
}

/** The cost of one operator. */
export interface StepProfile {
  name: string;
  op: string;
  kernel: string;
  /** Sum over all runs. */
  milliseconds: number;
  runs: number;
  /** Multiply-accumulate operations of one run. */
  macs: number;
}

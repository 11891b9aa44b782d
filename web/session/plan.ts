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

/** One line of a program: a step of a plan in it, or an operator that runs between plans. */
export interface Instruction {
  /**
   * The part of the program: 'head' and 'tail' have plans, 'middle' has what runs operator by operator. Parts of a
   * body stand behind the names of its node and attribute: 'loop/body/head'.
   */
  part: string;
  op: string;
  /** Name of the operator. */
  name: string;
  /** Name of the kernel, or 'reference'. */
  kernel: string;
  /** Indices of {@link Plan.registers}; -1 for an operand that is left out. */
  reads: number[];
  writes: number[];
  /** Multiply-accumulate operations of one run of a step. */
  macs?: number;
}

/** Memory that instructions read and write. */
export interface ProgramRegister {
  /** The part that it belongs to. */
  part: string;
  /** Name of the first value in it. */
  name: string;
  /** Left out where only a run tells them. */
  type?: TensorType;
  dims?: number[];
}

/** How a session computes its graph for the shapes of its last run. */
export interface Plan {
  /** Empty for a program. */
  steps: PlanStep[];
  /**
   * Of a model that runs as several plans (control flow, shapes that depend on data): its instructions in the order
   * of running, the bodies of a node behind it, with the kernels of the shapes that ran last.
   */
  instructions?: Instruction[];
  /** What the instructions read and write. */
  registers?: ProgramRegister[];
  /** Of a program: the sum over its plans. */
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

// Work in progress: what is happening, how far it is, and how long it will take.

import { announcement, job, problem } from '../state/store.js';
import { describe } from './problems.js';

export interface Job {
  /** The purpose of the whole work. */
  title: string;
  /** The present step. */
  phase: string;
  /** More about it, such as "12 of 64". */
  detail: string;
  /** 0 to 1. */
  share: number;
  /** Estimated seconds until the end; undefined while they are not known. */
  left: number | undefined;
  cancel: () => void;
  cancelled: boolean;
}

/** One phase of a work, with its usual share of the time. */
export interface Phase {
  name: string;
  weight: number;
}

/** Reports how far the present phase is. */
export type Report = (phase: number, done: number, total: number, detail?: string) => void;

/** Seconds of work before the rest is estimated. */
const EARLIEST = 1.5;

/**
 * Runs `work`, shows its progress, and shows what it throws. Returns its result, or undefined when it failed or
 * was cancelled. A new job cancels the former one.
 */
export async function runJob<T>(
  title: string,
  phases: readonly Phase[],
  work: (signal: AbortSignal, report: Report) => Promise<T>,
): Promise<T | undefined> {
  job.value?.cancel();
  problem.value = undefined;
  const controller = new AbortController();
  const began = performance.now();
  const whole = phases.reduce((sum, { weight }) => sum + weight, 0);
  let own: Job = {
    title,
    phase: phases[0]!.name,
    detail: '',
    share: 0,
    left: undefined,
    cancelled: false,
    cancel: () => {
      controller.abort();
      update({ cancelled: true, phase: 'Cancelling' });
    },
  };
  function update(change: Partial<Job>): void {
    const mine = job.value === own;
    own = { ...own, ...change };
    if (mine) job.value = own;
  }
  const report: Report = (phase, done, total, detail) => {
    if (controller.signal.aborted) return;
    const before = phases.slice(0, phase).reduce((sum, { weight }) => sum + weight, 0);
    const within = total > 0 ? Math.min(1, done / total) : 0;
    const share = Math.max(own.share, (before + within * phases[phase]!.weight) / whole);
    const seconds = (performance.now() - began) / 1000;
    const name = phases[phase]!.name;
    if (name !== own.phase) announcement.value = name;
    update({
      phase: name,
      detail: detail ?? (total > 1 ? `${done} of ${total}` : ''),
      share,
      left: seconds > EARLIEST && share > 0.05 ? (seconds * (1 - share)) / share : undefined,
    });
  };
  job.value = own;
  announcement.value = `${title}: ${own.phase}`;
  try {
    return await work(controller.signal, report);
  } catch (error) {
    if (controller.signal.aborted) announcement.value = 'Cancelled.';
    else {
      const shown = describe(error);
      problem.value = shown;
      announcement.value = `${shown.title} ${shown.text}`;
      console.warn(error);
    }
    return undefined;
  } finally {
    if (job.value === own) job.value = undefined;
  }
}

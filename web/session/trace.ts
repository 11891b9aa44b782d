// Turns profiles into traces: files that trace viewers open (ui.perfetto.dev, chrome://tracing).

import { invalidArgument, show } from '../base/errors.js';
import type { StepProfile } from './plan.js';

/** One event of a trace; times in microseconds. */
export interface ChromeTraceEvent {
  name: string;
  /** 'X': an event with a duration; 'M': the name of a row. */
  ph: 'X' | 'M';
  pid: number;
  tid: number;
  /** Operator type. */
  cat?: string;
  ts?: number;
  dur?: number;
  args: Record<string, string | number>;
}

/** A trace in the JSON object format of trace viewers. */
export interface ChromeTrace {
  traceEvents: ChromeTraceEvent[];
  displayTimeUnit: 'ms';
}

/**
 * A profile as a trace: one run, in which every operator has its mean time over all runs, one after another
 * in the order of computation. Several profiles become rows below each other, all from time 0.
 * `JSON.stringify` of the result is the file.
 *
 * Format: "Trace Event Format", the sections on complete events (`ph: 'X'`) and metadata events.
 *
 * @param profile The result of {@link InferenceSession.profile}, or several of them by name.
 * @throws RequantError INVALID_ARGUMENT
 *
 * @example
 * await writeFile('trace.json', JSON.stringify(toChromeTrace({ float: a.profile(), int8: b.profile() })));
 */
export function toChromeTrace(
  profile: readonly StepProfile[] | Readonly<Record<string, readonly StepProfile[]>>,
): ChromeTrace {
  if (typeof profile !== 'object' || profile === null) {
    throw invalidArgument(`there is no profile in ${show(profile)}`, 'profile');
  }
  const rows: Readonly<Record<string, readonly StepProfile[]>> = Array.isArray(profile)
    ? { session: profile as readonly StepProfile[] }
    : (profile as Readonly<Record<string, readonly StepProfile[]>>);
  const pid = 1;
  const traceEvents: ChromeTraceEvent[] = [
    { name: 'process_name', ph: 'M', pid, tid: 0, args: { name: 'requant' } },
  ];
  Object.entries(rows).forEach(([row, steps], index) => {
    if (!Array.isArray(steps)) throw invalidArgument(`"${row}" is not a profile`, 'profile');
    const tid = index + 1;
    traceEvents.push(
      { name: 'thread_name', ph: 'M', pid, tid, args: { name: row } },
      { name: 'thread_sort_index', ph: 'M', pid, tid, args: { sort_index: tid } },
    );
    let ts = 0;
    for (const { name, op, kernel, milliseconds, runs, macs } of steps as readonly StepProfile[]) {
      const dur = runs > 0 ? (milliseconds * 1000) / runs : 0;
      const args: Record<string, string | number> = { op, kernel, runs };
      if (macs > 0) {
        args['macs'] = macs;
        // Multiply and add count as two operations; operations per microsecond are 1e-3 GOPS.
        if (dur > 0) args['gops'] = Number(((2 * macs) / dur / 1000).toFixed(2));
      }
      traceEvents.push({ name: name || op, cat: op, ph: 'X', pid, tid, ts, dur, args });
      ts += dur;
    }
  });
  return { traceEvents, displayTimeUnit: 'ms' };
}

/** @internal The part of a profile that came after an earlier one of the same session. */
export function since(
  profile: readonly StepProfile[],
  earlier: readonly StepProfile[],
): StepProfile[] {
  // Steps have the same places as long as the plan is the same.
  const same = profile.every(({ name }, at) => name === earlier[at]?.name);
  if (!same) return [...profile];
  return profile.map((step, at) => ({
    ...step,
    milliseconds: step.milliseconds - earlier[at]!.milliseconds,
    runs: step.runs - earlier[at]!.runs,
  }));
}

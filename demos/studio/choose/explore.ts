// Measures configurations between few and many bits, from which a budget chooses.

import { signal } from '@preact/signals';
import type { MetricSpec, SearchReport } from 'requant';
import { type Samples, divide } from '../bring/samples.js';
import { engine, held } from '../engine/engine.js';
import { announcement, model, preparation, result, samples } from '../state/store.js';
import { runJob } from '../watch/job.js';
import { StudioError } from '../watch/problems.js';

/** What was measured, for these samples and their preparation. */
export interface Explored {
  report: SearchReport;
  samples: Samples;
  preparation: unknown;
}

export const explored = signal<Explored | undefined>(undefined);

const MOST_ATTEMPTS = 12;
const MOST_SECONDS = 90;
const [MOST_CALIBRATION, MOST_VALIDATION] = [32, 128];
/** Bytes of the budget for divided bits, of those of the float file: between those of 4 and of 8 bits. */
const BETWEEN = 0.2;

/** The measure that suits what is known of the network and the samples. */
function metricOf({ labels }: Samples, test: readonly number[]): MetricSpec {
  const task = result.value?.task;
  const outputs = model.value!.info.outputs;
  const row = outputs[0]?.dims.filter((dim) => dim !== 1 && typeof dim === 'number').length === 1;
  if (task ? task !== 'classes' : !row) return 'snr';
  return labels && test.every((index) => labels[index]! >= 0) ? 'top1' : 'agreement';
}

const phases = [
  { name: 'Reading samples', weight: 1 },
  { name: 'Measuring the choices', weight: 12 },
];

/** Quantizes the network in several ways, and measures bytes, milliseconds and accuracy of each. */
export async function explore(): Promise<void> {
  const given = samples.value;
  const { float } = held;
  if (!given || !float) return;
  const settings = preparation.value;
  const parts = divide(given);
  const report = await runJob('Measuring the choices', phases, async (signal, progress) => {
    const worker = await engine();
    const read = async (indices: readonly number[]) => {
      const list = [];
      for (const index of indices) {
        const label = given.labels?.[index] ?? -1;
        const feeds = await given.feeds(index, settings);
        list.push(label >= 0 ? { feeds, label } : { feeds });
      }
      return list;
    };
    const test = parts.test.slice(0, MOST_VALIDATION);
    const validation = await read(test);
    const calibration = await read(parts.calibration.slice(0, MOST_CALIBRATION));
    const { size } = model.value!.bytes;
    let attempts = 0;
    const made = await worker
      .quantize(float, {
        calibration: calibration.map(({ feeds }) => feeds),
        validation,
        metric: metricOf(given, test),
        budget: { bytes: Math.max(1, Math.round(size * BETWEEN)) },
        search: {
          recoveries: ['default', 'equalize'],
          maxAttempts: MOST_ATTEMPTS,
          maxSeconds: MOST_SECONDS,
        },
        signal,
        onProgress: ({ phase, configuration = '' }) => {
          if (phase === 'attempt') attempts += 1;
          progress(1, attempts, MOST_ATTEMPTS, configuration);
        },
      })
      .catch((error: { code?: string; search?: SearchReport }) => {
        // Nothing fits the budget, which only says where bits are divided.
        if (error.code === 'FLOOR_NOT_MET' && error.search) return { search: error.search };
        throw error;
      });
    if ('dispose' in made) await made.dispose();
    const found = made.search;
    if (!found?.attempts.some(({ error }) => error === undefined)) {
      throw new StudioError('Nothing could be measured.', 'Every choice failed for this network');
    }
    return found;
  });
  if (!report) return;
  explored.value = { report, samples: given, preparation: settings };
  announcement.value = `${report.attempts.length} choices are measured.`;
}

// Quantizes the model by a recipe, and compares the result with it.

import { batch } from '@preact/signals';
import type { CompareReport, WorkerModel, WorkerQuantizedModel } from 'requant';
import { divide } from '../bring/samples.js';
import { type Recipe, configOf, recipeOf } from '../choose/recipes.js';
import {
  type Result,
  announcement,
  go,
  model,
  preparation,
  recipe,
  result,
  samples,
  widths,
} from '../state/store.js';
import { type Phase, runJob } from '../watch/job.js';
import { StudioError } from '../watch/problems.js';
import { askBoth } from './answers.js';
import { engine, freeResult, held } from './engine.js';
import { hasFewBits } from './few_bits.js';
import { type Task, makeOne, walk } from './make.js';
import { emptyFeeds, measure } from './speed.js';

/** Samples on which every layer is compared. */
const LAYER_SAMPLES = 2;

function phasesOf({ weights, epochs }: Recipe, hasSamples: boolean): Phase[] {
  return [
    { name: weights ? 'Quantizing weights' : 'Watching the network on your samples', weight: 3 },
    { name: 'Choosing scales', weight: weights ? 0 : 4 },
    { name: 'Training', weight: epochs ? 14 : 0 },
    { name: 'Comparing both networks', weight: hasSamples ? 4 : 0 },
    { name: 'Looking into every layer', weight: hasSamples && !weights ? 2 : 0 },
    { name: 'Measuring speed', weight: 1 },
  ];
}

/** Sizes, memory and, for integers, the errors of layers: on few samples, which tell which layers are worst. */
async function lookedInto(
  { float, given, signal, report }: Task,
  candidate: WorkerModel | WorkerQuantizedModel,
  indices: readonly number[],
): Promise<CompareReport> {
  const layerwise = 'config' in candidate;
  const few = indices.slice(0, layerwise ? LAYER_SAMPLES : 1);
  const worker = await engine();
  return worker.compare(float, candidate, {
    dataset: walk(few, async (index) => ({ feeds: await given!.feeds(index, preparation.value) })),
    ...(layerwise ? { layerwise, aloneSamples: 1 } : {}),
    signal,
    onProgress: ({ done }) => report(4, done, few.length),
  });
}

function latencyOf({ float, quantized }: NonNullable<Result['speed']>): CompareReport['latency'] {
  const [floatMs, candidateMs] = [float.total, quantized.total];
  return { floatMs, candidateMs, ratio: floatMs / candidateMs };
}

/** Bytes of the file that the user gets, in which few bits are packed. */
async function fileSize(
  candidate: WorkerModel | WorkerQuantizedModel,
  comparison: CompareReport | undefined,
): Promise<number> {
  if ('config' in candidate && hasFewBits(candidate.config)) {
    return (await candidate.toOnnx({ format: 'qdq', int4: true })).length;
  }
  return comparison?.size.candidateBytes ?? (await candidate.toOnnx()).length;
}

async function work(task: Task): Promise<Result> {
  const { recipe: chosen, float, given, signal, report } = task;
  const began = performance.now();
  const worker = await engine();
  const { info, bytes } = model.value!;
  const parts = given && divide(given);
  const { candidate, made } = await makeOne(task, parts?.calibration ?? []);
  const seconds = (performance.now() - began) / 1000;
  try {
    held.floatSession ??= await worker.createSession(float, { profile: true });
    const session = await worker.createSession(candidate, { profile: true });
    held.session = session;
    const settings = preparation.value;
    const asked =
      given &&
      (await askBoth(
        session,
        parts!.test,
        given,
        settings,
        (done) => report(3, done, parts!.test.length),
        signal,
      ));
    const looked = given && (await lookedInto(task, candidate, parts!.test));
    const feeds = given ? await given.feeds(0, settings) : await emptyFeeds(info);
    const speed = await measure(
      { float: held.floatSession, quantized: session },
      feeds,
      signal,
      (done, total) => report(5, done, total, `${done} of ${total}`),
    ).catch((error: unknown) => {
      // A network without samples may refuse inputs of zeros.
      if (given || signal.aborted) throw error;
      return undefined;
    });
    held.quantized = candidate;
    const record = 'config' in candidate ? candidate.config : undefined;
    const comparison = asked && {
      ...looked!,
      ...asked.differences,
      latency: latencyOf(speed!),
    };
    return {
      recipe: chosen.id,
      config: chosen.weights ? undefined : configOf(chosen, widths.value),
      widths: widths.value,
      record,
      warnings: record ? record.warnings : (candidate as WorkerModel).warnings,
      bytes: await fileSize(candidate, comparison),
      floatBytes: comparison?.size.floatBytes ?? bytes.size,
      report: comparison,
      answers: asked?.answers ?? [],
      task: asked?.task ?? 'numbers',
      likeness: asked?.likeness,
      calibrated: chosen.weights ? 0 : parts!.calibration.length,
      separate: parts?.separate ?? false,
      speed,
      made,
      seconds,
    };
  } catch (error) {
    held.quantized = candidate;
    await freeResult();
    throw error;
  }
}

/**
 * Takes the chosen recipe, and shows the comparison. Where only bits of layers changed since the last time, only
 * these layers are made again, unless `whole` says otherwise.
 */
export async function quantizeNow(whole = false): Promise<void> {
  const chosen = recipeOf(recipe.value);
  const given = samples.value;
  const phases = phasesOf(chosen, given !== undefined);
  const done = await runJob(`Quantizing: ${chosen.name}`, phases, async (signal, report) => {
    const { float } = held;
    if (!float) throw new StudioError('There is no model yet.', 'Bring one first');
    if (chosen.needsSamples && !given) {
      throw new StudioError(
        'This recipe needs samples.',
        'It has to see which numbers flow through the network',
        'Bring some pictures or arrays, or take a recipe for weights alone',
      );
    }
    return work({ recipe: chosen, float, given, whole, signal, report });
  });
  if (!done) {
    // The former result's networks are gone.
    if (!held.quantized) result.value = undefined;
    return;
  }
  batch(() => {
    result.value = done;
    announcement.value = `Done: ${chosen.name}.`;
  });
  go('believe');
}

/** Asks both networks again, after the user said what they do. */
export async function answerAgain(): Promise<void> {
  const now = result.value;
  const given = samples.value;
  const { session } = held;
  if (!now || !given || !session) return;
  const phases = [{ name: 'Comparing both networks', weight: 1 }];
  const { test } = divide(given);
  const asked = await runJob('Showing answers in another way', phases, (signal, report) =>
    askBoth(
      session,
      test,
      given,
      preparation.value,
      (done) => report(0, done, test.length),
      signal,
    ),
  );
  if (!asked || result.value !== now) return;
  const { answers, task, likeness } = asked;
  result.value = { ...now, answers, task, likeness };
}

// Loads a model that the user brought.

import { batch } from '@preact/signals';
import { guessPreparation } from '../bring/preparation.js';
import type { Brought } from '../bring/files.js';
import {
  announcement,
  model,
  ownTask,
  preparation,
  result,
  samples,
  selected,
  widths,
} from '../state/store.js';
import { pendingWidths } from '../state/link.js';
import { runJob } from '../watch/job.js';
import { StudioError } from '../watch/problems.js';
import { engine, freeAll, held } from './engine.js';

/** Reads a model, and shows it. Returns whether it could be read. */
export async function openModel({ name, bytes, external }: Brought): Promise<boolean> {
  const phases = [
    { name: 'Starting the engine', weight: 2 },
    { name: 'Reading the model', weight: 4 },
    { name: 'Looking at its operators', weight: 2 },
  ];
  const done = await runJob(`Opening ${name}`, phases, async (signal, report) => {
    const worker = await engine();
    report(1, 0, 1);
    const float = await worker.loadModel(bytes, {
      externalData: external,
      preload: ['tools'],
      dynamicRange: 'float',
      signal,
    });
    report(2, 0, 1);
    const info = await float.info();
    if (info.quantized) {
      await float.dispose();
      throw new StudioError(
        'This model is quantized already.',
        `${name} has quantized operators`,
        'Bring the float model that it was made from.',
      );
    }
    const optimized = await float.clone();
    await optimized.optimize();
    const [written, nodes] = await Promise.all([float.nodeDetails(), optimized.nodeDetails()]);
    await optimized.dispose();
    await freeAll();
    held.float = float;
    return { name, bytes, external, info, written, nodes };
  });
  if (!done) return false;
  batch(() => {
    model.value = done;
    samples.value = undefined;
    result.value = undefined;
    selected.value = undefined;
    ownTask.value = undefined;
    widths.value = pendingWidths(done.nodes);
    preparation.value = guessPreparation(done.info);
    announcement.value = `${name} is open: ${done.nodes.length} operators.`;
  });
  return true;
}

// Takes files wherever they come from: opens the model among them, reads the samples.

import {
  announcement,
  go,
  model,
  preparation,
  problem,
  result,
  room,
  samples,
} from '../state/store.js';
import { runJob } from '../watch/job.js';
import { StudioError, describe } from '../watch/problems.js';
import { type GivenFile, sortFiles } from './files.js';

async function takeSamples(files: readonly GivenFile[]): Promise<void> {
  const now = model.value;
  if (!now) {
    throw new StudioError(
      'The model is missing.',
      'These are samples, which belong to a model',
      'Bring the model first, or together with them',
    );
  }
  const phases = [
    { name: 'Reading samples', weight: 1 },
    { name: 'Trying how to scale pixels', weight: 2 },
  ];
  const done = await runJob('Reading samples', phases, async (_signal, report) => {
    const { readSamples } = await import('./samples.js');
    const read = await readSamples(files, now.info);
    if (read.count === 0) throw new StudioError('There are no samples in this.', 'It is empty');
    report(1, 0, 1);
    const settings = preparation.value;
    // The first sample shows at once whether samples fit the model.
    await read.feeds(0, settings);
    if (!settings) return { read, settings };
    const { chooseScaling } = await import('../engine/certainty.js');
    return { read, settings: await chooseScaling(read, settings) };
  });
  if (!done) return;
  samples.value = done.read;
  preparation.value = done.settings;
  result.value = undefined;
  announcement.value = `${done.read.title} are here.`;
}

/** Takes dropped or chosen files. `get` may fail, too. */
export async function takeFiles(get: () => Promise<GivenFile[]> | GivenFile[]): Promise<void> {
  try {
    const given = await get();
    if (given.length === 0) return;
    const { model: brought, samples: found } = sortFiles(given);
    if (brought) {
      const { openModel } = await import('../engine/load.js');
      if (!(await openModel(brought))) return;
    }
    if (found.length > 0) await takeSamples(found);
    // A comparison and files of the former model or samples are gone.
    if (result.value === undefined && (room.value === 'believe' || room.value === 'take'))
      go('bring');
  } catch (error) {
    problem.value = describe(error);
  }
}

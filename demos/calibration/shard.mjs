// A process of its own: shows the samples of its share to a calibration, pass by pass, and sends what it saw.

import { Calibration, loadModel } from 'requant';
import { CONFIG, MODEL, samples } from './task.mjs';

const [first, end, count] = process.argv.slice(2).map(Number);
const all = await samples(count);
const model = await loadModel(MODEL);
const shard = await Calibration.create(model, { config: CONFIG });
// A share that does not begin with the first sample must know which one that is.
if (first > 0) shard.probe(all[0], first);

process.on('message', ({ pass, before }) => {
  if (before) shard.load(pass - 1, before);
  for (const feeds of all.slice(first, end)) shard.add(pass, feeds);
  process.send(shard.save(pass));
});

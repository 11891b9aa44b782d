// Tells bundlers where the script of createWorker() is. It is a file of its own, so that only code that
// starts workers brings the script into a bundle.

import type { WorkerScript } from './own_files.js';

/** The script of the worker of createWorker(). */
export const mainWorker: WorkerScript = {
  file: 'worker_main.js',
  from: import.meta.url,
  name: 'worker_main_script.js',
  bundled: () => new Worker(new URL('./worker_main.js', import.meta.url), { type: 'module' }),
};

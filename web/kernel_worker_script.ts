// Tells bundlers where the script of threads is. It is a file of its own, so that only code that starts
// threads brings the script into a bundle.

import type { WorkerScript } from './own_files.js';

/** The script of a thread of the engine. */
export const kernelWorker: WorkerScript = {
  file: 'kernel_worker.js',
  from: import.meta.url,
  name: 'kernel_worker_script.js',
  bundled: () => new Worker(new URL('./kernel_worker.js', import.meta.url), { type: 'module' }),
};

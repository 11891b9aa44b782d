// How long the thread of a page works, in its processor's time: other programs of the machine do not change it.

/**
 * Runs `work` and returns what the main threads of the browser's pages did meanwhile: the tasks' processor times in
 * milliseconds. Chromium only; one call at a time.
 */
export async function mainThreadTasks(browser, work) {
  await browser.startTracing(undefined, { categories: ['toplevel', '__metadata'] });
  let trace;
  try {
    await work();
  } finally {
    trace = await browser.stopTracing();
  }
  const { traceEvents } = JSON.parse(trace.toString());
  const pages = new Set(
    traceEvents
      .filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain')
      .map(({ pid, tid }) => `${pid}:${tid}`),
  );
  return traceEvents
    .filter(({ name, pid, tid }) => name.endsWith('::RunTask') && pages.has(`${pid}:${tid}`))
    .map(({ tdur = 0 }) => tdur / 1000); // Chromium leaves out a time of 0
}

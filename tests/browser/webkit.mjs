// JavaScriptCore's first compiler computed wrong values, or stopped with an access out of bounds, in some
// calibrations (docs/browsers.md). So a test may run in WebKit more than once.

const RUNS = 4;
const STOPPED = /Out of bounds memory access/;

/**
 * Resolves to the result of `attempt()`. In WebKit the attempt runs again, up to three times, while `holds(result)`
 * is false, or resolves to that, or it stopped with an access out of bounds, and `t` says so; the last result is returned, whether it
 * holds or not.
 */
export async function settled(browser, t, attempt, holds) {
  if (browser.name !== 'WebKit') return attempt();
  for (let run = 1; ; run += 1) {
    let result;
    try {
      result = await attempt();
      if (run === RUNS || (await holds(result))) return result;
      t.diagnostic(`WebKit's run ${run} does not hold (docs/browsers.md)`);
    } catch (error) {
      if (run === RUNS || !STOPPED.test(error)) throw error;
      t.diagnostic(`WebKit stopped in run ${run} (docs/browsers.md): ${error}`);
    }
  }
}

// A user's way through the studio has the same answers in every browser.

import assert from 'node:assert/strict';
import test, { before } from 'node:test';
import { browsers, start } from './browsers.mjs';
import { serve } from './site.mjs';
import { buildStudio } from './studio_site.mjs';

before(buildStudio);

/** The result that the user's page posts, or its error. */
async function useIn(browser) {
  let hear;
  const heard = new Promise((resolve) => (hear = resolve));
  const site = await serve(hear);
  const running = await start(browser, `${site.url}tests/browser/page/studio.html`).catch(
    async (error) => {
      await site.close();
      throw error;
    },
  );
  try {
    return await Promise.race([heard, running.ended]);
  } finally {
    await running.close();
    await site.close();
  }
}

let first;

for (const browser of browsers) {
  test(browser.name, { timeout: 600_000 }, async (t) => {
    let result = await useIn(browser);
    if (browser.name === 'WebKit' && /Out of bounds memory access/.test(result.error)) {
      t.diagnostic(`WebKit stopped once (docs/browsers.md): ${result.error}`);
      result = await useIn(browser);
    }
    assert.equal(result.error, undefined);
    t.diagnostic(`${result.seconds.toFixed(1)} s to the comparison; ${result.agent}`);
    assert.ok(result.isolated);
    const { first: before4, second, size } = result;
    assert.equal(Object.keys(before4).length, 10);
    assert.notDeepEqual(before4, second);
    first ??= { before4, second, size };
    assert.deepEqual({ before4, second, size }, first);
  });
}

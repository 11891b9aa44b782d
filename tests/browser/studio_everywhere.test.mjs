// A user's way through the studio has the same answers in every browser.

import assert from 'node:assert/strict';
import test, { before } from 'node:test';
import { browsers } from './browsers.mjs';
import { buildStudio } from './studio_site.mjs';
import { useIn } from './studio/in_browser.mjs';

before(buildStudio);

let first;

for (const browser of browsers) {
  test(browser.name, { timeout: 600_000 }, async (t) => {
    const result = await useIn(browser, 'studio.html', t);
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

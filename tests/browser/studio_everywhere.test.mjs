// A user's way through the studio has the same answers in every browser.

import assert from 'node:assert/strict';
import test, { before } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { browsers } from './browsers.mjs';
import { buildStudio } from './studio_site.mjs';
import { useIn } from './studio/in_browser.mjs';

before(buildStudio);

let first;

const answers = ({ first: before4, second, size }) => ({ before4, second, size });
const holds = (result) => !result.error && (!first || isDeepStrictEqual(answers(result), first));

for (const browser of browsers) {
  test(browser.name, { timeout: 3_600_000 }, async (t) => {
    const result = await useIn(browser, 'studio.html', t, holds);
    assert.equal(result.error, undefined);
    t.diagnostic(`${result.seconds.toFixed(1)} s to the comparison; ${result.agent}`);
    assert.ok(result.isolated);
    const { before4, second } = answers(result);
    assert.equal(Object.keys(before4).length, 10);
    assert.notDeepEqual(before4, second);
    first ??= answers(result);
    assert.deepEqual(answers(result), first);
  });
}

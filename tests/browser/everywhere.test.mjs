// Integers and the files of quantize() and train() have the same bits in Node and in every browser, with
// relaxed SIMD and without, on the page, in a Worker and with threads.

import assert from 'node:assert/strict';
import test, { before } from 'node:test';
import { browsers } from './browsers.mjs';
import { inBrowser, inNode, present } from './everywhere.mjs';

/**
 * JavaScriptCore's first compiler computes wrong values, or stops with an access out of bounds, in about one
 * of thirty calibrations (docs/browsers.md). So jobs that differ in WebKit, if they are few, run once more.
 */
const MOST_REPEATED = 3;

let judge;

before(async () => {
  judge = await inNode();
});

test('Node', () => {
  assert.deepEqual(
    Object.keys(judge.hashes),
    present.map(({ title }) => title),
  );
  const all = Object.entries(judge.hashes).map(([job, ways]) => {
    const [first] = Object.values(ways);
    for (const [way, hash] of Object.entries(ways)) assert.equal(hash, first, `${job}, ${way}`);
    return first;
  });
  assert.ok(new Set(all).size > 0.7 * all.length, 'jobs compute different things');
  assert.equal(judge.threads, 2);
});

for (const browser of browsers) {
  test(browser.name, { timeout: 1_200_000 }, async (t) => {
    const { hashes, threads, agent, variant, warnings } = await inBrowser(browser).catch(
      (error) => {
        if (browser.name !== 'WebKit' || !/Out of bounds memory access/.test(error)) throw error;
        t.diagnostic(`WebKit stopped once (docs/browsers.md): ${error}`);
        return inBrowser(browser);
      },
    );
    t.diagnostic(`${agent}: ${variant}`);
    assert.deepEqual(warnings, []);
    assert.equal(threads, 2);
    const differing = present.filter(
      ({ title }) => JSON.stringify(hashes[title]) !== JSON.stringify(judge.hashes[title]),
    );
    if (browser.name === 'WebKit' && differing.length > 0 && differing.length <= MOST_REPEATED) {
      const titles = differing.map(({ title }) => title).join(', ');
      t.diagnostic(`WebKit computed these differently, once: ${titles} (docs/browsers.md)`);
      Object.assign(hashes, (await inBrowser(browser, differing)).hashes);
    }
    assert.deepEqual(hashes, judge.hashes);
  });
}

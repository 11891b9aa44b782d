// Integers and the files of quantize() and train() have the same bits in Node and in every browser, with
// relaxed SIMD and without, on the page, in a Worker and with threads.

import assert from 'node:assert/strict';
import test, { before } from 'node:test';
import { browsers } from './browsers.mjs';
import { inBrowser, inNode, present } from './everywhere.mjs';
import { settled } from './webkit.mjs';
import { shareOfToday } from '../node/rounds.mjs';

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

/** WebKit takes minutes: in CI it has half of the jobs every day. */
const jobsOf = (browser) => (browser.name === 'WebKit' ? shareOfToday(present, 2) : present);

const differing = (wanted, hashes) =>
  wanted.filter(
    ({ title }) => JSON.stringify(hashes[title]) !== JSON.stringify(judge.hashes[title]),
  );

for (const browser of browsers) {
  test(browser.name, { timeout: 1_200_000 }, async (t) => {
    const hashes = {};
    const wanted = jobsOf(browser);
    let threads = 1;
    // Jobs that were right once need not run again.
    const attempt = async () => {
      const page = await inBrowser(browser, differing(wanted, hashes));
      Object.assign(hashes, page.hashes);
      threads = Math.max(threads, page.threads);
      const titles = differing(wanted, hashes).map(({ title }) => title);
      if (titles.length > 0) t.diagnostic(`these differ: ${titles.join(', ')}`);
      return page;
    };
    const page = await settled(browser, t, attempt, () => differing(wanted, hashes).length === 0);
    t.diagnostic(`${page.agent}: ${page.variant}`);
    assert.deepEqual(page.warnings, []);
    assert.equal(threads, 2);
    assert.deepEqual(
      hashes,
      Object.fromEntries(wanted.map(({ title }) => [title, judge.hashes[title]])),
    );
  });
}

// Runs the jobs in Node and in a browser.

import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import * as requant from '../../dist/index.js';
import { ROOT } from './browser.mjs';
import { start } from './browsers.mjs';
import { jobs, runJobs } from './jobs.mjs';
import { fileOf, serve } from './site.mjs';

const haveShared = existsSync(path.join(ROOT, '../shared/models/README.md'));

/** The jobs whose models are available. */
export const present = jobs.filter(({ shared }) => haveShared || !shared);

/**
 * Runs jobs in Node. Gives hashes by job and way, { [job]: { [way]: hash } }, and the largest number of
 * threads that computed one.
 */
export async function inNode(chosen = present) {
  const hashes = {};
  let threads = 1;
  await runJobs({
    requant,
    chosen,
    read: async (file) => new Uint8Array(await readFile(fileOf(file))),
    report: (result) => {
      (hashes[result.job] ??= {})[result.way] = result.hash;
      threads = Math.max(threads, result.threads);
    },
  });
  return { hashes, threads };
}

/**
 * Runs jobs in a browser, with `seconds` for each at most. Gives what inNode gives, and the browser's name
 * for itself.
 */
export async function inBrowser(browser, chosen = present, seconds = 300) {
  const hashes = {};
  let threads = 1;
  let timer;
  let hear;
  let fail;
  const done = new Promise((resolve, reject) => {
    hear = resolve;
    fail = reject;
  });
  done.catch(() => {});
  let last = 'nothing';
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(
      () => fail(new Error(`${browser.name}: ${last} was ${seconds} s ago`)),
      seconds * 1000,
    );
  };
  const site = await serve((message) => {
    const { job, way, hash, error } = message;
    if (error) return fail(new Error(`${browser.name}: ${error}`));
    if (message.done) return hear(message);
    (hashes[job] ??= {})[way] = hash;
    threads = Math.max(threads, message.threads);
    last = `${job}, ${way}`;
    return wait();
  });
  const query = chosen.map(({ title }) => `job=${encodeURIComponent(title)}`).join('&');
  const running = await start(browser, `${site.url}tests/browser/page/index.html?${query}`).catch(
    async (error) => {
      await site.close();
      throw error;
    },
  );
  try {
    wait();
    const { agent, variant, warnings } = await Promise.race([done, running.ended]);
    return { hashes, threads, agent, variant, warnings };
  } finally {
    clearTimeout(timer);
    await running.close();
    await site.close();
  }
}

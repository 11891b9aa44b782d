// The built demos on a server, and the rules that all of them keep.

import assert from 'node:assert/strict';
import path from 'node:path';
import { build, preview } from 'vite';
import { fetchDemoFiles } from '../../../web/scripts/demo_files.mjs';
import { demosConfig } from '../../../web/scripts/demos.mjs';
import { SCREENS, problemsOf } from '../accessible.mjs';
import { BUILD, openPage } from '../browser.mjs';

let built;

/** Why networks of other packages are missing, a line for each; empty if all are there. */
export let missing = [];

/**
 * Builds the demos, once for a process, and serves them on an isolated page. Test files run at the same time, so each
 * names a folder of its own for them.
 */
export async function serveDemos(name) {
  missing = fetchDemoFiles();
  const config = demosConfig(path.join(BUILD, `site-${name}`));
  built ??= build({ ...config, logLevel: 'error' });
  await built;
  const server = await preview({
    ...config,
    logLevel: 'error',
    server: {},
    preview: { ...config.preview, host: '127.0.0.1', port: 0 },
  });
  return {
    url: `http://127.0.0.1:${server.httpServer.address().port}/`,
    close: () => server.close(),
  };
}

/** Opens a page of the demos, or another one. */
export async function open(browser, url, options = {}) {
  const { page, problems } = await openPage(browser, options);
  page.setDefaultTimeout(60_000);
  await page.goto(url);
  return { page, problems };
}

/** Waits until the line #status matches; fails with what it says, and with the errors of the page. */
export async function status(page, pattern, problems = [], timeout = 240_000) {
  const { source, flags } = pattern;
  await page
    .waitForFunction(
      ([text, how]) => {
        const line = document.querySelector('#status');
        return new RegExp(text, how).test(line.textContent) || line.classList.contains('error');
      },
      [source, flags],
      { timeout },
    )
    .catch(() => {});
  assert.match(await page.textContent('#status'), pattern, problems.join('\n'));
}

/** Holds the page in its present state to the rules of accessible pages on every screen, and takes pictures. */
export async function check(page, name) {
  const before = page.viewportSize();
  for (const { name: screen, viewport, colorScheme } of SCREENS) {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await problemsOf(page), [], `${name}, ${screen}`);
    await page.screenshot({
      path: path.join(BUILD, `demos-${name}-${screen}.png`),
      fullPage: true,
    });
  }
  await page.setViewportSize(before);
}

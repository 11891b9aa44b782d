// Drives Debian's Chromium without a network beyond this machine.

import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const BUILD = path.join(ROOT, 'build');

const CHROMIUM = process.env.REQUANT_CHROMIUM ?? '/usr/bin/chromium';

/**
 * Starts the browser with an empty profile or that of a folder, and with the arguments in
 * REQUANT_CHROMIUM_ARGS (such as --js-flags=--no-enable-avx-vnni) and `more`, without
 * those of Playwright in `without`. The caller closes it.
 */
export function launch(profile, more = [], without = []) {
  if (!existsSync(CHROMIUM)) {
    throw new Error(`${CHROMIUM} is missing: install chromium, or set REQUANT_CHROMIUM`);
  }
  const options = {
    executablePath: CHROMIUM,
    ignoreDefaultArgs: without,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-domain-reliability',
      '--no-first-run',
      '--no-pings',
      ...(process.env.REQUANT_CHROMIUM_ARGS?.split(' ') ?? []),
      ...more,
    ],
  };
  if (profile !== undefined) return chromium.launchPersistentContext(profile, options);
  return chromium.launch(options);
}

/** Opens a page whose errors are collected: exceptions, console errors, failed requests. */
export async function openPage(browser, options = {}) {
  const page = await browser.newPage(options);
  // A machine that builds something else at the same time can be very slow.
  page.setDefaultTimeout(200_000);
  const problems = [];
  page.on('pageerror', (error) => problems.push(`exception: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(`console: ${message.text()}`);
  });
  page.on('requestfailed', (request) => {
    problems.push(`request: ${request.url()} ${request.failure()?.errorText}`);
  });
  return { page, problems };
}

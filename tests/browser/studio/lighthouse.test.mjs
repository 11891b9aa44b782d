// Lighthouse on the built studio: a median of 95 points or more for performance, accessibility and best practices. Only with
// REQUANT_LONG=1; npm installs Lighthouse into build/lighthouse.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import test from 'node:test';
import { chromium } from 'playwright-core';
import { BUILD } from '../browser.mjs';
import { serveFolder } from '../../../web/scripts/site/serve.mjs';
import { SITE, buildStudio } from '../studio_site.mjs';

const VERSION = '12.8.2';
const LEAST = 95;
// Lighthouse's documentation asks for the median of several runs (docs/variability.md of GoogleChrome/lighthouse).
const RUNS = 3;
const PORT = 9223;
const skip = !process.env.REQUANT_LONG && 'only with REQUANT_LONG=1';

/** Lighthouse, after installing it; undefined without a network. */
async function installed() {
  const folder = path.join(BUILD, 'lighthouse');
  const main = path.join(folder, 'node_modules/lighthouse/core/index.js');
  if (!existsSync(main)) {
    mkdirSync(folder, { recursive: true });
    const dependencies = { lighthouse: VERSION };
    writeFileSync(
      path.join(folder, 'package.json'),
      JSON.stringify({ private: true, dependencies }),
    );
    try {
      execFileSync('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts'], {
        cwd: folder,
        stdio: 'pipe',
        timeout: 300e3,
      });
    } catch {
      return undefined;
    }
  }
  return (await import(pathToFileURL(main).href)).default;
}

/** The settings of a run of Lighthouse as a `formFactor`: 'desktop' or 'mobile'. */
function settingsOf(formFactor) {
  const onlyCategories = ['performance', 'accessibility', 'best-practices'];
  const common = { port: PORT, logLevel: 'error', formFactor, onlyCategories };
  if (formFactor === 'mobile') return common;
  return {
    ...common,
    screenEmulation: { width: 1350, height: 940, deviceScaleFactor: 1, mobile: false },
    throttling: { rttMs: 40, throughputKbps: 10_240, cpuSlowdownMultiplier: 1 },
  };
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

test('points of Lighthouse', { skip, timeout: 900_000 }, async (t) => {
  const lighthouse = await installed();
  if (!lighthouse) return t.skip('npm cannot be reached');
  await buildStudio();
  const site = await serveFolder(SITE);
  const profile = mkdtempSync(path.join(os.tmpdir(), 'requant-lighthouse-'));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.REQUANT_CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', `--remote-debugging-port=${PORT}`],
  });
  try {
    const [load] = os.loadavg();
    const busy = load > os.availableParallelism();
    for (const formFactor of ['desktop', 'mobile']) {
      const points = {};
      for (let run = 0; run < RUNS; run += 1) {
        const { lhr } = await lighthouse(site.url, settingsOf(formFactor));
        for (const { id, score } of Object.values(lhr.categories)) {
          (points[id] ??= []).push(Math.round(100 * score));
        }
      }
      for (const [id, runs] of Object.entries(points)) {
        t.diagnostic(`${formFactor}, ${id}: ${runs.join(', ')}`);
        if (id === 'performance' && busy) {
          t.diagnostic(`the machine was busy (load ${load.toFixed(1)}): the time says nothing`);
        } else assert.ok(median(runs) >= LEAST, `${formFactor}, ${id}: ${runs.join(', ')}`);
      }
    }
  } finally {
    await browser.close();
    await site.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  }
});

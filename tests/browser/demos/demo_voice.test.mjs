// The demo that listens to the microphone, in Chromium, whose fake microphone plays what espeak-ng says. REQUANT_LONG=1
// runs it.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import test from 'node:test';
import { BUILD, launch } from '../browser.mjs';
import { check, missing, open, serveDemos, status } from './demo_site.mjs';

const WAV = path.join(BUILD, 'demos-voice.wav');

/** Writes the spoken text; false without espeak-ng. */
const speak = () =>
  spawnSync('espeak-ng', [
    '-v',
    'en-gb',
    '-s',
    '150',
    '-w',
    WAV,
    'Hello there. Hey Jarvis! How are you?',
  ]).status === 0;

const skip =
  process.env.REQUANT_LONG !== '1'
    ? 'REQUANT_LONG=1 runs it'
    : !speak() && 'needs a voice: apt-get install espeak-ng';

test('voice: hears speech and the wake word', { skip, timeout: 400_000 }, async (t) => {
  const site = await serveDemos('voice');
  const lacks = missing.find((line) => /vad-web|openwakeword/.test(line));
  if (lacks) {
    await site.close();
    return t.skip(lacks);
  }
  const browser = await launch(undefined, [
    '--use-fake-device-for-media-stream',
    `--use-file-for-fake-audio-capture=${WAV}`,
    '--autoplay-policy=no-user-gesture-required',
  ]);
  try {
    const url = `${site.url}voice/index.html`;
    const refused = await open(browser, url);
    await refused.page.click('#start');
    await status(refused.page, /may not use the microphone. Allow it/);
    await check(refused.page, 'voice-refused');
    await refused.page.close();

    const context = await browser.newContext({ permissions: ['microphone'] });
    const lost = await open(context, url);
    await lost.page.route('**/hey_jarvis.onnx', (route) => route.fulfill({ status: 404 }));
    await lost.page.click('#start');
    await status(lost.page, /hey_jarvis.onnx cannot be loaded \(404\)/);
    await lost.page.close();

    const { page, problems } = await open(context, url);
    await page.click('#start');
    await status(page, /^Heard "Hey Jarvis"/, problems);
    assert.ok(Number(await page.textContent('#count')) >= 1);
    await status(page, /^Someone speaks/, problems);
    t.diagnostic(await page.textContent('#time'));
    await check(page, 'voice-heard');
    await page.click('#start');
    await status(page, /^Stopped/);
    assert.deepEqual(problems, []);
    await context.close();
  } finally {
    await browser.close();
    await site.close();
  }
});

// Debian's browsers, one row each. They start without a driver, with an address and an empty profile; their
// page posts its results to the server that it came from (site.mjs).

import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const LIBRARIES = '/usr/lib';

/** The paths of MiniBrowser, whose folder depends on the processor and on the version of GTK. */
function miniBrowsers() {
  return readdirSync(LIBRARIES)
    .filter((folder) => folder.endsWith('-linux-gnu'))
    .flatMap((folder) =>
      ['webkit2gtk-4.1', 'webkitgtk-6.0', 'webkit2gtk-4.0'].map((version) =>
        path.join(LIBRARIES, folder, version, 'MiniBrowser'),
      ),
    );
}

// The browser must not ask, greet, update or look for a network.
const FIREFOX_SETTINGS = `
user_pref("app.normandy.enabled", false);
user_pref("app.update.disabledForTesting", true);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("browser.safebrowsing.malware.enabled", false);
user_pref("browser.safebrowsing.phishing.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.homepage_override.mstone", "ignore");
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("extensions.update.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("toolkit.telemetry.enabled", false);
`;

/**
 * `programs` are paths where the browser may be, which the environment variable `setting` overrides;
 * `prepare(profile)` turns an empty folder into a profile; `display` says that it needs an X server.
 */
export const browsers = [
  {
    name: 'Chromium',
    setting: 'REQUANT_CHROMIUM',
    package: 'chromium',
    programs: () => ['/usr/bin/chromium'],
    arguments: (profile, url) => [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-domain-reliability',
      '--no-first-run',
      '--no-pings',
      `--user-data-dir=${profile}`,
      ...(process.env.REQUANT_CHROMIUM_ARGS?.split(' ') ?? []),
      url,
    ],
  },
  {
    name: 'Firefox',
    setting: 'REQUANT_FIREFOX',
    package: 'firefox-esr',
    programs: () => ['/usr/bin/firefox-esr', '/usr/bin/firefox'],
    prepare: (profile) => writeFileSync(path.join(profile, 'user.js'), FIREFOX_SETTINGS),
    arguments: (profile, url) => ['--headless', '--no-remote', '--profile', profile, url],
  },
  {
    name: 'WebKit',
    setting: 'REQUANT_WEBKIT',
    package: 'libwebkit2gtk-4.1-0 and xvfb',
    programs: miniBrowsers,
    display: true,
    // GTK's build has threads behind an option, and its sandbox needs a system bus.
    environment: { JSC_useSharedArrayBuffer: '1', WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1' },
    arguments: (profile, url) => ['--private', url],
  },
];

/** The browser's program, or undefined if it is not installed. */
export function programOf({ setting, programs }) {
  const given = process.env[setting];
  return given ?? programs().find((file) => existsSync(file));
}

/** Ends a process and those it started. */
async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  process.kill(-child.pid, 'SIGKILL');
  await ended;
}

/** Starts an X server without a screen; it chooses its number. */
async function startDisplay() {
  const child = spawn(
    'Xvfb',
    ['-displayfd', '3', '-screen', '0', '1024x768x24', '-nolisten', 'tcp'],
    {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
      detached: true,
    },
  );
  const number = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`Xvfb ended (${code})`)));
    child.stdio[3].once('data', (data) => resolve(String(data).trim()));
  });
  return { child, display: `:${number}` };
}

/** Starts a browser with this address; `ended` rejects when it ends by itself. The caller closes it. */
export async function start(browser, url) {
  const program = programOf(browser);
  if (!program) {
    const { name, package: debian, setting } = browser;
    throw new Error(`there is no ${name}: install ${debian}, or set ${setting}`);
  }
  const profile = mkdtempSync(path.join(os.tmpdir(), 'requant-browser-'));
  browser.prepare?.(profile);
  const screen = browser.display ? await startDisplay() : undefined;
  const child = spawn(program, browser.arguments(profile, url), {
    stdio: 'ignore',
    detached: true,
    env: {
      ...process.env,
      HOME: profile,
      XDG_CACHE_HOME: profile,
      XDG_CONFIG_HOME: profile,
      XDG_DATA_HOME: profile,
      ...(screen ? { DISPLAY: screen.display } : {}),
      ...browser.environment,
    },
  });
  const ended = new Promise((_, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) =>
      reject(new Error(`${browser.name} ended (${signal ?? code}) before its page was done`)),
    );
  });
  ended.catch(() => {});
  const close = async () => {
    await end(child);
    if (screen) await end(screen.child);
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  return { ended, close };
}

// Drives Debian's Firefox by Marionette, its own protocol, which installs extensions
// (firefox-source-docs.mozilla.org/testing/marionette/Protocol.html). Playwright drives only a Firefox of its own.

import { appendFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { browsers, start } from '../browsers.mjs';

const firefox = browsers.find(({ name }) => name === 'Firefox');
const WAIT = 60_000;

async function freePort() {
  const server = net.createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** A connection, as soon as the browser takes one. */
async function connect(port, ended) {
  const end = performance.now() + WAIT;
  for (;;) {
    const socket = net.connect(port, '127.0.0.1');
    const open = new Promise((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    try {
      await Promise.race([open, ended]);
      return socket;
    } catch (error) {
      socket.destroy();
      if (error.code !== 'ECONNREFUSED' || performance.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

/**
 * Starts Firefox with `settings` (values of about:config by name). Gives `call(command, parameters)`, which resolves to
 * the command's result, `open(url)`, which shows any address in a new tab, and `close()`.
 */
export async function startFirefox(settings) {
  const port = await freePort();
  const own = {
    ...firefox,
    prepare(profile) {
      firefox.prepare(profile);
      const lines = Object.entries({ ...settings, 'marionette.port': port }).map(
        ([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`,
      );
      appendFileSync(path.join(profile, 'user.js'), lines.join(''));
    },
    arguments: (profile, url) => [
      '--marionette',
      '--remote-allow-system-access',
      ...firefox.arguments(profile, url),
    ],
  };
  const running = await start(own, 'about:blank');
  const waiting = new Map();
  let last = 0;
  let socket;
  try {
    socket = await connect(port, running.ended);
  } catch (error) {
    await running.close();
    throw error;
  }
  let rest = Buffer.alloc(0);
  socket.on('data', (data) => {
    rest = Buffer.concat([rest, data]);
    for (;;) {
      // A message is its length in bytes, a colon, and JSON.
      const colon = rest.indexOf(':');
      const length = Number(rest.subarray(0, Math.max(colon, 0)));
      if (colon < 0 || rest.length < colon + 1 + length) return;
      const message = JSON.parse(rest.subarray(colon + 1, colon + 1 + length));
      rest = rest.subarray(colon + 1 + length);
      // The first message, which greets, is no answer.
      if (!Array.isArray(message)) continue;
      const [, id, error, result] = message;
      const { resolve, reject } = waiting.get(id);
      waiting.delete(id);
      if (error) reject(new Error(`${error.error}: ${error.message}`));
      else resolve(result);
    }
  });
  const call = (command, parameters = {}) => {
    const id = ++last;
    const answer = new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
    const text = JSON.stringify([0, id, command, parameters]);
    socket.write(`${Buffer.byteLength(text)}:${text}`);
    return Promise.race([answer, running.ended]);
  };
  const close = async () => {
    socket.destroy();
    await running.close();
  };
  try {
    await call('WebDriver:NewSession');
  } catch (error) {
    await close();
    throw error;
  }
  /** Opens an address in a new tab as the browser itself does, which may open pages of extensions. */
  const open = async (url) => {
    const before = await call('WebDriver:GetWindowHandles');
    await call('Marionette:SetContext', { value: 'chrome' });
    const script = `gBrowser.addTab(arguments[0], {
      triggeringPrincipal: Services.scriptSecurityManager.getSystemPrincipal(),
    });`;
    await call('WebDriver:ExecuteScript', { script, args: [url] });
    await call('Marionette:SetContext', { value: 'content' });
    const now = await call('WebDriver:GetWindowHandles');
    const handle = now.find((one) => !before.includes(one));
    await call('WebDriver:SwitchToWindow', { handle });
  };
  return { call, close, open };
}

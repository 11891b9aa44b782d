// The demo of digits in Chromium, Firefox and WebKit: it trains a network of one bit in each. REQUANT_LONG=1 runs it.

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';
import { browsers, programOf, start } from '../browsers.mjs';
import { settled } from '../webkit.mjs';
import { serveDemos } from './demo_site.mjs';

const skipShort = process.env.REQUANT_LONG !== '1' && 'REQUANT_LONG=1 runs it';

/** Uses the page, and posts what its line #status says at the end. */
const SCRIPT = `<script type="module">
  const status = document.querySelector('#status');
  const post = (text) => fetch('/result', { method: 'POST', body: text });
  addEventListener('error', ({ message }) => post(message));
  new MutationObserver(() => {
    if (/^Trained/.test(status.textContent) || status.classList.contains('error')) {
      void post(status.textContent);
    }
  }).observe(status, { childList: true, characterData: true, subtree: true, attributes: true });
  document.querySelector('#example').click();
  document.querySelector('#train').click();
</script>`;

describe('digits in every browser', { skip: skipShort }, () => {
  let site;
  let server;
  let hear;
  before(async () => {
    site = await serveDemos('everywhere');
    // The built page, with the script at its end.
    server = http.createServer(async (request, response) => {
      if (request.method === 'POST') {
        const chunks = [];
        for await (const chunk of request) chunks.push(chunk);
        response.writeHead(204).end();
        hear(Buffer.concat(chunks).toString());
        return;
      }
      const answer = await fetch(new URL(request.url, site.url));
      const type = answer.headers.get('Content-Type') ?? 'application/octet-stream';
      const isPage = request.url.endsWith('/digits/index.html');
      const body = isPage
        ? (await answer.text()).replace('</body>', `${SCRIPT}</body>`)
        : Buffer.from(await answer.arrayBuffer());
      response.writeHead(answer.status, {
        'Content-Type': type,
        'Cross-Origin-Opener-Policy': 'same-origin',
        'Cross-Origin-Embedder-Policy': 'require-corp',
      });
      response.end(body);
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  after(async () => {
    server?.close();
    server?.closeAllConnections();
    await site?.close();
  });

  for (const browser of browsers) {
    const skip = !programOf(browser) && `there is no ${browser.name}`;
    test(browser.name, { skip, timeout: 600_000 }, async (t) => {
      const url = `http://127.0.0.1:${server.address().port}/digits/index.html`;
      const attempt = async () => {
        const result = new Promise((resolve) => (hear = resolve));
        const { ended, close } = await start(browser, url);
        try {
          return await Promise.race([result, ended]);
        } finally {
          await close();
        }
      };
      const trained = /^Trained/;
      assert.match(await settled(browser, t, attempt, (text) => trained.test(text)), trained);
    });
  }
});

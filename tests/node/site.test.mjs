// Checks the pages, links, pictures and parts of the reference that the site is made of. tests/browser/documentation.test.mjs builds it.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { sidebarPages } from '../../docs/.vitepress/sidebar.mjs';
import { chartsOf } from '../../docs/.vitepress/theme/results.mjs';
import { pictures } from '../../web/scripts/pictures.mjs';
import { writeHostFiles } from '../../web/scripts/site/hosts.mjs';
import { flowchartSvg } from '../../web/scripts/site/flowchart.mjs';
import { pageOf } from '../../web/scripts/site/markdown.mjs';
import { pagesByDocument } from '../../web/scripts/site/pages.mjs';
import { referencePages } from '../../web/scripts/site/reference.mjs';
import { ISOLATION, serveFolder } from '../../web/scripts/site/serve.mjs';
import { ROOT } from './support.mjs';

const read = (file) => readFileSync(path.join(ROOT, file), 'utf8');

test('every page is in the sidebar once', () => {
  const pages = [...pagesByDocument().values()].filter((page) => page !== 'index.md');
  const reference = sidebarPages().filter((page) => page.startsWith('reference/'));
  assert.deepEqual(
    sidebarPages().sort(),
    [...pages.map((page) => page.replace(/\.md$/, '')), ...reference].sort(),
  );
});

test('every document becomes a page, with all of its links', async () => {
  const pages = pagesByDocument();
  for (const [document, page] of pages) {
    const text = await pageOf({ document, page, text: read(document), pages });
    assert.ok(!/```mermaid|^<!-- (live|site):/m.test(text), document);
  }
  await assert.rejects(
    pageOf({ document: 'docs/api.md', page: 'api.md', text: '[a](nothing.md)', pages }),
    /no page of docs\/nothing\.md/,
  );
});

test('links, pictures and blocks in the form of the site', async () => {
  const page = (text) =>
    pageOf({
      document: 'docs/how/winograd.md',
      page: 'how/winograd.md',
      text,
      pages: pagesByDocument(),
    });
  assert.equal(await page('[a](../api.md#tuning)'), '[a](../api.md#tuning)');
  assert.equal(await page('`[a](b.md)`'), '`[a](b.md)`');
  assert.equal(await page('```js file=a.mjs\n[a](b)\n```'), '```js\n[a](b)\n```');
  assert.equal(await page('<!-- live: Fingerprints -->'), '<Fingerprints />');
  assert.match(await page('![name](pictures/winograd.svg)'), /<svg role="img" aria-label="name"/);
});

test('the pictures are those that the script draws', () => {
  const drawn = pictures();
  assert.deepEqual(readdirSync(path.join(ROOT, 'docs/how/pictures')).sort(), Object.keys(drawn));
  for (const [name, text] of Object.entries(drawn)) {
    assert.equal(read(`docs/how/pictures/${name}`), text, `${name}: node web/scripts/pictures.mjs`);
  }
});

test('the charts have the medians of the last measurement', () => {
  const results = JSON.parse(read('tests/bench/results.json'));
  const charts = chartsOf(results);
  assert.deepEqual(Object.keys(charts), [
    'latency',
    'latency-without-vnni',
    'chromium',
    'threads',
    'memory',
  ]);
  for (const { choices } of Object.values(charts)) {
    assert.ok(choices.length >= 2);
    for (const { bars } of choices) {
      assert.ok(bars.length >= 4);
      for (const { value, least, most } of bars) assert.ok(least <= value && value <= most);
    }
  }
  const [first] = results.parts.latency.result.networks;
  const bar = charts.latency.choices[0].bars.find(({ name }) => name === '8 bits');
  assert.equal(bar.value, first.times.int8.median);
});

test('a flowchart becomes a drawing with all of its words', async () => {
  const drawing = await flowchartSvg([
    'flowchart LR',
    'a["one<br>two"] -->|"goes to"| b(["three"])',
  ]);
  for (const word of ['one', 'two', 'goes to', 'three'])
    assert.ok(drawing.includes(`>${word}</text>`));
  await assert.rejects(flowchartSvg(['flowchart TD', 'a => b']));
});

test('the reference has every command, operator, pass, kernel and recovery method', async () => {
  const pages = await referencePages();
  const { engineInfo } = await import('requant');
  const { commands } = await import('../../dist/cli/run.js');
  const { operators, passes, kernels } = await engineInfo();
  for (const { spec } of commands) assert.ok(pages['commands.md'].includes(`\n## ${spec.name}\n`));
  for (const [page, rows] of [
    ['operators.md', operators],
    ['passes.md', passes],
    ['kernels.md', kernels],
  ]) {
    for (const { name } of rows) assert.ok(pages[page].includes(`| \`${name}\` |`), name);
  }
  assert.equal(pages['recovery.md'].match(/^\| `/gm).length, 17);
});

test('unknown addresses have a page whose links lead to pages', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-site-'));
  writeHostFiles(folder);
  const server = await serveFolder(folder, { prefix: '/some/folder/' });
  try {
    for (const address of ['nothing', 'guides/nothing.html', 'a/b/c/']) {
      const response = await fetch(server.url + address);
      assert.equal(response.status, 404);
      assert.match(response.headers.get('content-type'), /^text\/html/);
      for (const [name, value] of Object.entries(ISOLATION))
        assert.equal(response.headers.get(name), value);
      const text = await response.text();
      assert.match(text, /There is no such page/);
      const links = [...text.matchAll(/<a href="\/(.*?)" data-page="(.*?)">/g)];
      assert.deepEqual(
        links.map(([, , page]) => page),
        ['', 'studio/', 'guides/start.html'],
      );
      for (const [, link, page] of links) assert.equal(link, page);
    }
    assert.ok(sidebarPages().includes('guides/start'));
  } finally {
    await server.close();
    rmSync(folder, { recursive: true });
  }
});

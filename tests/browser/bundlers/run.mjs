// Installs, builds and runs every row of the table, and writes docs/bundlers.md with the features that work.
//
//   node tests/browser/bundlers/run.mjs [NAME ...] [--write]
//
// Without names all rows run, which takes minutes and needs the npm registry. --write puts the table into
// docs/bundlers.md; rows that did not run keep their previous results.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { BUILD, ROOT, launch, openPage } from '../browser.mjs';
import { CHECKS, judgeRow } from './judge.mjs';
import { ASSETS, ISOLATION, nodeOf, pack, prepare, serve, shell, startServer } from './project.mjs';
import { NODE, ROWS } from './table.mjs';

const OUTCOMES = path.join(BUILD, 'bundlers/outcomes.json');
export const DOCUMENT = path.join(ROOT, 'docs/bundlers.md');

/** The policy of docs/bundlers.md, extended by what a bundler's own inline scripts need. */
function policyFor(html, more = []) {
  const inline = [...html.matchAll(/<script(?![^>]*\ssrc=)[^>]*>([^]*?)<\/script>/g)];
  const hashes = inline.map(
    ([, text]) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`,
  );
  const scripts = ["'self'", "'wasm-unsafe-eval'", ...hashes, ...more].join(' ');
  return {
    inline: inline.length,
    policy: `default-src 'self'; script-src ${scripts}; worker-src 'self'; style-src 'self' 'unsafe-inline'`,
  };
}

/** Packs the package, and computes what Node gives with it. */
export function start() {
  const tarball = pack();
  const folder = prepare(NODE, tarball);
  mkdirSync(ASSETS, { recursive: true });
  const node = (script, ...args) => shell(folder, ['node', script, ...args].join(' '));
  node('make_files.mjs', path.join(ROOT, 'demos'), ASSETS);
  const { results } = runProcess(NODE, folder, process.execPath);
  for (const [name, { error }] of Object.entries(results)) {
    if (error) throw new Error(`Node: ${name}: ${error}`);
  }
  const expected = Object.fromEntries(
    Object.entries(results).map(([name, { value }]) => [name, value]),
  );
  return { tarball, expected };
}

function runProcess(row, folder, node) {
  const file = path.join(folder, 'result.json');
  rmSync(file, { force: true });
  const output = shell(folder, `export ASSETS='${ASSETS}' RESULT='${file}'; ${row.run}`, node);
  try {
    return { results: JSON.parse(readFileSync(file, 'utf8')), problems: [] };
  } catch {
    throw new Error(`${row.run} wrote no result:\n${output.slice(-2000)}`);
  }
}

async function visit(browser, url) {
  const { page, problems } = await openPage(browser);
  try {
    await page.goto(url);
    // A page whose scripts do not run never answers; a check that hangs gives up by itself before.
    let left = 1600;
    for (; left > 0; left--) {
      const { result, error } = await page.evaluate(() => ({ ...document.body?.dataset }));
      if (result) return { results: JSON.parse(result), problems };
      if (error) return { results: {}, problems: [error, ...problems] };
      if (problems.length > 0) left = Math.min(left, 600);
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    return { results: {}, problems: [...problems, 'the page does not answer'] };
  } finally {
    await page.close();
  }
}

/**
 * The verdict of each check of a row: true, or the reason why it fails; and the number of inline scripts of
 * its page.
 */
export async function runRow(row, { tarball, expected }, browser) {
  const node = nodeOf(row);
  const folder = prepare(row, tarball);
  if (row.run)
    return { verdicts: judgeRow(row, { strict: runProcess(row, folder, node) }, expected) };
  shell(folder, row.build, node);
  const server = row.serve && (await startServer(folder, row.serve, node));
  const from = server ? { port: server.port } : { folder: path.join(folder, row.output) };
  const open = async (headers, use) => {
    const served = await serve(from, headers);
    try {
      return await use(served.url + (row.handler ?? ''));
    } finally {
      await served.close();
    }
  };
  try {
    if (row.handler) {
      const answer = await open({}, async (url) => (await fetch(url)).text());
      let results;
      try {
        results = JSON.parse(answer);
      } catch {
        throw new Error(`${row.handler} answers:\n${answer.slice(0, 2000)}\n${server.output()}`);
      }
      return { verdicts: judgeRow(row, { strict: { results, problems: [] } }, expected) };
    }
    const html = await open({}, async (url) => (await fetch(url)).text());
    const { policy, inline } = policyFor(html, row.policy);
    const look = (headers) => open({ ...ISOLATION, ...headers }, (url) => visit(browser, url));
    const strict = await look({ 'Content-Security-Policy': policy });
    let verdicts = judgeRow(row, { strict }, expected);
    if (Object.values(verdicts).some((verdict) => verdict !== true) || strict.problems.length > 0) {
      verdicts = judgeRow(row, { strict, free: await look({}) }, expected);
    }
    return { verdicts, inline, problems: strict.problems };
  } finally {
    server?.close();
  }
}

/** The differences between the verdicts and the table's row, for tests. */
export function surprises(row, verdicts) {
  const found = [];
  for (const [name, verdict] of Object.entries(verdicts)) {
    const cannot = row.cannot?.[name];
    if (verdict !== true && !cannot) found.push(`${name}: ${verdict}`);
    if (verdict === true && cannot) found.push(`${name} works, and the table says it does not`);
  }
  return found;
}

const versionOf = (row) => row.version ?? Object.values(row.packages)[0];

/** The first cells of a row in the document. */
export const headOf = (row) => `| ${row.name} | ${versionOf(row)} |`;

function tableOf(outcomes) {
  const lines = [
    `| | version | ${Object.values(CHECKS).join(' | ')} |`,
    `| --- | --- |${Object.keys(CHECKS)
      .map(() => ' :-: |')
      .join('')}`,
  ];
  const notes = [];
  for (const { row, verdicts, inline } of outcomes) {
    const cells = Object.keys(CHECKS).map((name) => {
      const verdict = verdicts[name];
      if (verdict === undefined) return ' ';
      let why = verdict === true ? undefined : (row.cannot?.[name] ?? verdict);
      if (name === 'policy' && verdict === true && inline > 0) {
        why = 'with the hashes of the inline scripts that it puts into the page itself.';
      }
      if (why === undefined) return 'yes';
      if (!notes.includes(why)) notes.push(why);
      return `${verdict === true ? 'yes' : 'no'} (${notes.indexOf(why) + 1})`;
    });
    lines.push(`${headOf(row)} ${cells.join(' | ')} |`);
  }
  return [...lines, '', ...notes.map((note, index) => `${index + 1}. ${note}`)].join('\n');
}

const recipesOf = (rows) =>
  rows
    .filter(({ recipe }) => recipe)
    .map(({ name, recipe }) => `### ${name}\n\n${recipe.trim()}\n`)
    .join('\n');

/** Replaces the text between two marks. */
function between(text, mark, content) {
  const pattern = new RegExp(`(<!-- ${mark} -->\n)[^]*?(<!-- end of ${mark} -->)`);
  if (!pattern.test(text)) throw new Error(`docs/bundlers.md has no place for the ${mark}`);
  return text.replace(pattern, (_whole, begin, end) => `${begin}\n${content}\n\n${end}`);
}

async function main(args) {
  const names = args.filter((arg) => !arg.startsWith('--'));
  const unknown = names.filter((name) => !ROWS.some((row) => row.name === name));
  if (unknown.length > 0) {
    console.error(`no row ${unknown[0]} (${ROWS.map(({ name }) => name).join(', ')})`);
    process.exit(2);
  }
  const rows = ROWS.filter(({ name }) => names.length === 0 || names.includes(name));
  const begun = start();
  const outcomes = existsSync(OUTCOMES) ? JSON.parse(readFileSync(OUTCOMES, 'utf8')) : {};
  const browser = await launch();
  try {
    for (const row of rows) {
      const from = performance.now();
      let outcome;
      try {
        outcome = await runRow(row, begun, browser);
      } catch (error) {
        const all = Object.keys(CHECKS).map((name) => [name, String(error.message)]);
        outcome = { verdicts: Object.fromEntries(all), inline: 0 };
      }
      outcomes[row.name] = { ...outcome, version: versionOf(row) };
      writeFileSync(OUTCOMES, JSON.stringify(outcomes));
      const bad = surprises(row, outcome.verdicts);
      const seconds = ((performance.now() - from) / 1000).toFixed(1);
      console.log(
        `${row.name.padEnd(24)} ${seconds.padStart(6)} s  ${bad.length ? 'FAILED' : 'ok'}`,
      );
      for (const line of new Set(bad)) console.log(`  ${line}`);
      if (bad.length > 0) process.exitCode = 1;
    }
  } finally {
    await browser.close();
  }
  if (!args.includes('--write')) return;
  const known = ROWS.filter((row) => outcomes[row.name]?.version === versionOf(row));
  const missing = ROWS.filter((row) => !known.includes(row)).map(({ name }) => name);
  if (missing.length > 0) throw new Error(`the table lacks ${missing.join(', ')}: run them first`);
  const text = readFileSync(DOCUMENT, 'utf8');
  const all = ROWS.map((row) => ({ row, ...outcomes[row.name] }));
  const table = between(text, 'table', tableOf(all));
  writeFileSync(DOCUMENT, between(table, 'recipes', recipesOf(ROWS)));
  shell(ROOT, `npx prettier --write ${DOCUMENT}`);
}

if (import.meta.url === `file://${process.argv[1]}`) await main(process.argv.slice(2));

// Draws the measurements of browser.mjs or latency.mjs as a picture for the docs: the speed of every
// contender relative to onnxruntime-web in float, as bars with the least and most of the rounds.
//
//   node tests/bench/browser.mjs --json > result.json
//   node tests/bench/plot.mjs result.json > docs/latency.svg

import { readFileSync } from 'node:fs';
import { NETWORKS } from './networks.mjs';

const BASE = 'ort float';
/** The rows of each network, if they were measured: key, label and color. */
const ROWS = [
  ['int8', 'requant int8', '#0b6e4f'],
  ['float', 'requant float', '#6bbf8e'],
  ['LiteRT int8', 'LiteRT.js int8', '#b5651d'],
  ['LiteRT float', 'LiteRT.js float', '#e0b080'],
  ['ort QDQ', 'onnxruntime-web int8', '#3b5b92'],
  [BASE, 'onnxruntime-web float', '#9db4d8'],
];
const LABELS = 190;
const WIDTH = 760;
const BAR = 15;
const GAP = 24;

const escape = (text) => text.replace(/[&<>]/g, (letter) => `&#${letter.charCodeAt(0)};`);

function text(x, y, content, more = '') {
  return `<text x="${x}" y="${y}" ${more}>${escape(content)}</text>`;
}

/** Draws a network's title and bars from `y` on; gives the position of the next network. */
function drawNetwork({ network, times }, y, scale) {
  const base = times[BASE].median;
  const parts = [text(0, y + 13, NETWORKS[network].title, 'font-weight="bold"')];
  y += 20;
  for (const [key, label, colour] of ROWS) {
    const row = times[key];
    if (!row) continue;
    const middle = y + BAR / 2;
    const end = (ms) => (LABELS + (base / ms) * scale).toFixed(1);
    const speed = base / row.median;
    parts.push(
      text(LABELS - 8, y + 12, label, 'text-anchor="end"'),
      `<rect x="${LABELS}" y="${y}" width="${(speed * scale).toFixed(1)}" height="${BAR - 2}" fill="${colour}"/>`,
      `<path d="M${end(row.max)} ${middle}H${end(row.min)}" stroke="#222"/>`,
      text(
        LABELS + (base / row.min) * scale + 6,
        y + 12,
        `${speed.toFixed(2)} x, ${row.median.toPrecision(3)} ms`,
      ),
    );
    y += BAR + 3;
  }
  return { parts, y: y + GAP };
}

export function draw(result) {
  const fastest = Math.max(
    ...result.networks.flatMap(({ times }) =>
      ROWS.filter(([key]) => times[key]).map(([key]) => times[BASE].median / times[key].min),
    ),
  );
  const scale = (WIDTH - LABELS - 120) / fastest;
  const parts = [];
  let y = 24;
  for (const network of result.networks) {
    const drawn = drawNetwork(network, y, scale);
    parts.push(...drawn.parts);
    y = drawn.y;
  }
  const title = `Speed relative to onnxruntime-web in float; one thread, ${
    result.browser ? `Chromium ${result.browser.split('.')[0]}` : 'Node'
  }, ${result.rounds} rounds`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" font-family="sans-serif" font-size="12">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    text(0, 14, title),
    ...parts,
    '</svg>',
    '',
  ].join('\n');
}

if (import.meta.url === `file://${process.argv[1]}`) {
  process.stdout.write(draw(JSON.parse(readFileSync(process.argv[2], 'utf8'))));
}

// Draws the pictures of docs/how into docs/how/pictures: SVG with the colors of light and of dark pages. The numbers in
// them are computed here.
//
//   node web/scripts/pictures.mjs

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from './run.mjs';

const FOLDER = path.join(ROOT, 'docs/how/pictures');

const STYLE = `text{font:13px system-ui,sans-serif;fill:#191b22}
.small{font-size:12px;fill:#4d5261}.code{font-family:ui-monospace,monospace}
.box{fill:#f6f6f3;stroke:#b9b9ae}.a{fill:#dfe5fb;stroke:#2c4bd8}.b{fill:#fdf1e1;stroke:#a34a00}
.line{fill:none;stroke:#4d5261;stroke-width:1.5}.line.a{stroke:#2c4bd8;stroke-width:2}.line.b{stroke:#a34a00;stroke-width:2}
.dashed{stroke-dasharray:4 4}.head,.dot{fill:#4d5261;stroke:none}.dot.a{fill:#2c4bd8}.dot.b{fill:#a34a00}
@media (prefers-color-scheme:dark){text{fill:#eceef2}.small{fill:#b4bac6}.box{fill:#20252e;stroke:#485162}
.a{fill:#222b4a;stroke:#8ba3ff}.b{fill:#35291a;stroke:#ffb454}.line,.line.a,.line.b{fill:none}.line{stroke:#b4bac6}
.line.a{stroke:#8ba3ff}.line.b{stroke:#ffb454}.head,.dot{fill:#b4bac6}.dot.a{fill:#8ba3ff}.dot.b{fill:#ffb454}}`;

const round = (value) => Number(value.toFixed(1));
const text = (x, y, words, kind = '', anchor = 'middle') =>
  `<text${kind && ` class="${kind}"`} x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${String(words).replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</text>`;
const rect = (x, y, width, height, kind = 'box') =>
  `<rect class="${kind}" x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" rx="3"/>`;
const line = (points, kind = '', arrow = false) =>
  `<path class="line${kind && ` ${kind}`}" d="M${points.map(([x, y]) => `${round(x)} ${round(y)}`).join('L')}"${arrow ? ' marker-end="url(#arrow)"' : ''}/>`;
const flat = (y, from, to) =>
  line([
    [from, y],
    [to, y],
  ]);
const dot = (x, y, kind = '') =>
  `<circle class="dot${kind && ` ${kind}`}" cx="${round(x)}" cy="${round(y)}" r="4"/>`;
const arrow = (from, to, kind) => line([from, to], kind, true);

/** A grid of boxes with numbers. `kindOf(row, column)` is the class of a box. */
function cells(x, y, rows, { size = 34, height = 28, kindOf = () => 'box' } = {}) {
  return rows
    .flatMap((row, i) =>
      row.map(
        (value, j) =>
          rect(x + j * size, y + i * height, size - 3, height - 3, kindOf(i, j)) +
          text(x + j * size + (size - 3) / 2, y + i * height + height / 2 + 3, value, 'code'),
      ),
    )
    .join('\n');
}

function svg(width, height, title, parts) {
  const marker =
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="head" d="M0 0L8 4L0 8Z"/></marker></defs>';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">
<title>${title}</title>
<style>${STYLE}</style>
${marker}
${parts.flat().join('\n')}
</svg>
`;
}

/** Reals on a line, and the codes of three bits that stand for them. */
function quantization() {
  const [scale, zero] = [0.5, 2];
  const at = (real) => 70 + (real + 1) * 150;
  const x = 0.74;
  const code = Math.round(x / scale) + zero;
  const real = scale * (code - zero);
  const ticks = Array.from({ length: 8 }, (_, c) => [c, scale * (c - zero)]);
  return svg(680, 190, 'Eight codes of three bits on the line of real numbers', [
    flat(80, 40, 640),
    ticks.map(([c, r]) => [
      line([
        [at(r), 72],
        [at(r), 88],
      ]),
      text(at(r), 108, r, 'small'),
      rect(at(r) - 17, 124, 34, 26, c === code ? 'a' : 'box'),
      text(at(r), 142, c, 'code'),
    ]),
    text(at(-1) - 44, 142, 'code', 'small', 'middle'),
    dot(at(x), 80, 'b'),
    text(at(x) + 4, 40, `x = ${x}`),
    arrow([at(x), 48], [at(x), 72], 'b'),
    arrow([at(x), 60], [at(real) + 3, 60], 'a'),
    text(at(1.75), 40, 'step s = 0.5', 'small'),
    line([
      [at(1.5), 56],
      [at(2), 56],
    ]),
    text(at(0), 172, 'zero point', 'small'),
  ]);
}

/** A window of codes times weights, added up and requantized. */
function convolution() {
  const x = [10, 200, 130];
  const w = [-50, 100, 25];
  const products = x.map((value, at) => value * w[at]);
  const sum = products.reduce((a, b) => a + b);
  const start = 2500 - 128 * w.reduce((a, b) => a + b);
  return svg(680, 250, 'An integer convolution of three taps', [
    text(100, 24, 'codes of the input', 'small'),
    cells(40, 34, [x], { size: 44, kindOf: () => 'a' }),
    text(100, 94, 'codes of the weights', 'small'),
    cells(40, 104, [w], { size: 44, kindOf: () => 'b' }),
    arrow([180, 80], [230, 80]),
    text(310, 46, 'products, added in 32 bits', 'small'),
    cells(236, 60, [products], { size: 64 }),
    arrow([434, 74], [470, 74]),
    rect(476, 58, 90, 30, 'box'),
    text(521, 78, sum, 'code'),
    text(521, 46, 'sum', 'small'),
    text(310, 150, 'known before the network runs:', 'small'),
    rect(226, 160, 370, 30, 'box'),
    text(411, 180, `bias 2500 − 128 × (−50 + 100 + 25) = ${start}`, 'code'),
    arrow([521, 160], [521, 92]),
    arrow([566, 74], [600, 74]),
    rect(604, 58, 66, 30, 'a'),
    text(637, 78, sum + start, 'code'),
    text(637, 46, 'accumulator', 'small'),
    text(
      340,
      230,
      `${sum + start} × 0.02 × 0.01 = ${((sum + start) * 0.0002).toFixed(2)}, the real result`,
    ),
  ]);
}

/** Accumulators become codes: a staircase. */
function requantization() {
  const multiplier = 0.004;
  const x = (acc) => 70 + acc * 0.44;
  const y = (code) => 210 - code * 32;
  const steps = [];
  for (let code = 0; code <= 5; code++) {
    const [from, to] = [(code - 0.5) / multiplier, (code + 0.5) / multiplier].map((acc) =>
      Math.min(1300, Math.max(0, acc)),
    );
    steps.push([x(from), y(code)], [x(to), y(code)]);
  }
  return svg(680, 270, 'Accumulators on the horizontal axis become codes on the vertical one', [
    flat(210, 70, 660),
    line([
      [70, 210],
      [70, 30],
    ]),
    [0, 250, 500, 750, 1000, 1250].map((acc) => text(x(acc), 230, acc, 'small')),
    [0, 1, 2, 3, 4, 5].map((code) => text(56, y(code) + 4, code, 'small')),
    text(360, 256, 'accumulator', 'small'),
    text(70, 20, 'code above the zero point', 'small', 'start'),
    line(
      [
        [x(0), y(0)],
        [x(1300), y(5.2)],
      ],
      'dashed',
    ),
    line(steps, 'a'),
    dot(x(875), y(4), 'b'),
    text(x(875) - 8, y(4) - 12, '875 × 0.004 = 3.5: a tie', 'small', 'end'),
  ]);
}

/** A tile of Winograd: sixteen products instead of thirty-six. */
function winograd() {
  const d = [12, 7, 3, 9];
  const g = [2, -1, 5];
  const points = [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]];
  const taps = [2 * g[0], g[0] + g[1] + g[2], g[0] - g[1] + g[2], 2 * g[2]];
  const products = points.map((value, at) => value * taps[at]);
  const sums = [products[0] + products[1] + products[2], products[1] - products[2] - products[3]];
  return svg(680, 270, 'Winograd on one line: four products give two results of three taps', [
    text(108, 24, 'four inputs', 'small'),
    cells(40, 34, [d], { kindOf: () => 'a' }),
    arrow([108, 64], [108, 92]),
    text(120, 82, 'sums and differences', 'small', 'start'),
    cells(40, 96, [points], { kindOf: () => 'a' }),
    text(352, 24, 'three taps', 'small'),
    cells(300, 34, [g], { kindOf: () => 'b' }),
    arrow([352, 64], [352, 92]),
    text(364, 82, 'sums, twice as large', 'small', 'start'),
    cells(284, 96, [taps], { kindOf: () => 'b' }),
    text(210, 114, 'times', 'small'),
    arrow([210, 124], [210, 156]),
    text(222, 146, 'four products', 'small', 'start'),
    cells(142, 160, [products], { size: 44 }),
    arrow([228, 190], [228, 218]),
    text(240, 208, 'sums and differences', 'small', 'start'),
    cells(180, 222, [sums], { size: 48 }),
    arrow([280, 236], [330, 236]),
    text(306, 226, ': 2', 'small'),
    cells(336, 222, [sums.map((value) => value / 2)], { size: 48, kindOf: () => 'a' }),
    text(560, 120, 'directly: 6 products', 'small'),
    text(560, 140, 'here: 4', 'small'),
    text(560, 170, 'on tiles of 2 × 2:', 'small'),
    text(560, 190, '16 instead of 36', 'small'),
  ]);
}

/** Codes as planes of bits. */
function bitSerial() {
  const x = [3, 1, 0, 2];
  const u = [1, 2, 3, 3];
  const plane = (codes, bit) => codes.map((code) => (code >> bit) & 1);
  const rows = [];
  let y = 40;
  for (const i of [0, 1]) {
    for (const j of [0, 1]) {
      const [a, b] = [plane(x, i), plane(u, j)];
      const count = a.reduce((sum, bit, at) => sum + (bit & b[at]), 0);
      rows.push(
        cells(230, y, [a], { size: 26, kindOf: () => 'a' }),
        text(350, y + 18, 'and', 'small'),
        cells(370, y, [b], { size: 26, kindOf: () => 'b' }),
        text(488, y + 18, 'count', 'small', 'start'),
        text(536, y + 18, count, 'code'),
        text(570, y + 18, `× ${2 ** (i + j)}`, 'code', 'start'),
        text(640, y + 18, `${count * 2 ** (i + j)}`, 'code'),
      );
      y += 40;
    }
  }
  const total = x.reduce((sum, code, at) => sum + code * u[at], 0);
  return svg(680, 240, 'Products of two bits by counting bits', [
    text(100, 64, 'codes x', 'small'),
    cells(48, 74, [x], { size: 28, kindOf: () => 'a' }),
    text(100, 130, 'weights u', 'small'),
    cells(48, 140, [u], { size: 28, kindOf: () => 'b' }),
    arrow([170, 110], [220, 110]),
    text(282, 24, 'planes of x', 'small'),
    text(422, 24, 'planes of u', 'small'),
    rows,
    flat(204, 610, 664),
    text(640, 224, total, 'code'),
    text(560, 224, 'the sum of x u', 'small'),
  ]);
}

/** The table of the subset sums of four codes. */
function lookups() {
  const x = [5, 2, 7, 1];
  const table = Array.from({ length: 16 }, (_, index) =>
    x.reduce((sum, code, at) => sum + ((index >> at) & 1) * code, 0),
  );
  const bits = [1, 0, 1, 1];
  const index = bits.reduce((sum, bit, at) => sum + (bit << at), 0);
  return svg(680, 220, 'A table of sixteen sums replaces the products', [
    text(100, 24, 'four codes', 'small'),
    cells(44, 34, [x], { size: 28, kindOf: () => 'a' }),
    arrow([160, 48], [200, 48]),
    text(440, 24, 'the sums of all their subsets: 16 bytes', 'small'),
    cells(206, 34, [table], { size: 29, kindOf: (_i, at) => (at === index ? 'b' : 'a') }),
    Array.from({ length: 16 }, (_, at) => text(206 + at * 29 + 13, 78, at, 'small')),
    text(100, 122, 'bits of a weight row', 'small'),
    cells(44, 132, [bits], { size: 28, kindOf: () => 'b' }),
    arrow([160, 146], [206 + index * 29 + 13, 86]),
    text(300, 152, `index ${index}`, 'small'),
    text(440, 186, `${x[0]} + ${x[2]} + ${x[3]} = ${table[index]}, without a product`),
    text(440, 208, 'a byte shuffle does this for 16 outputs at once', 'small'),
  ]);
}

/** Pseudo-random numbers with a bell curve, the same everywhere: sums of twelve of Lehmer's. */
export function bellNumbers(count) {
  let state = 7;
  const next = () => (state = (state * 48271) % 2147483647) / 2147483647;
  return Array.from({ length: count }, () =>
    Array.from({ length: 12 }, next).reduce((sum, value) => sum + value - 0.5, 0),
  );
}

/** A histogram with an outlier, and two ranges. */
function calibration() {
  const values = [...bellNumbers(2000), 8];
  const bins = new Array(56).fill(0);
  for (const value of values) bins[Math.min(55, Math.floor((value + 4) * 4.5))]++;
  const most = Math.max(...bins);
  const x = (value) => 40 + (value + 4) * 49;
  const sorted = [...values].sort((a, b) => a - b);
  const tail = Math.floor(values.length * 0.0005);
  const [low, high] = [sorted[tail], sorted[sorted.length - 1 - tail]];
  return svg(680, 250, 'A histogram of values with one outlier, and the ranges of two observers', [
    bins.map((count, at) =>
      count ? rect(x(at / 4.5 - 4), 170 - (count / most) * 140, 10, (count / most) * 140, 'a') : '',
    ),
    flat(170, 30, 660),
    [-4, -2, 0, 2, 4, 6, 8].map((value) => text(x(value), 188, value, 'small')),
    line(
      [
        [x(sorted[0]), 206],
        [x(8), 206],
      ],
      'b',
    ),
    text(x(8), 200, 'minmax: all values', 'small', 'end'),
    line(
      [
        [x(low), 228],
        [x(high), 228],
      ],
      'a',
    ),
    text(x(high) + 12, 232, 'percentile 99.9: without the outlier', 'small', 'start'),
    dot(x(8), 166, 'b'),
    text(x(8), 152, 'outlier', 'small'),
  ]);
}

/** Rounding two weights whose inputs go together. */
function recovery() {
  const x = (value) => 60 + value * 200;
  const row = (y, title, first, second, error) => [
    text(30, y - 34, title, '', 'start'),
    flat(y, 50, 280),
    flat(y, 380, 610),
    [0, 1].map((tick) => [
      text(x(tick), y + 22, tick, 'small'),
      text(x(tick) + 330, y + 22, tick, 'small'),
      line([
        [x(tick), y - 6],
        [x(tick), y + 6],
      ]),
      line([
        [x(tick) + 330, y - 6],
        [x(tick) + 330, y + 6],
      ]),
    ]),
    dot(x(0.6), y, 'b'),
    arrow([x(0.6), y - 12], [x(first) + (first > 0.6 ? -3 : 3), y - 12], 'a'),
    dot(x(0.6) + 330, y, 'b'),
    arrow([x(0.6) + 330, y - 12], [x(second) + 330 + (second > 0.6 ? -3 : 3), y - 12], 'a'),
    text(340, y + 44, `error of the layer's output: ${error}`, 'small'),
  ];
  const power = (d, e) => (d * d + e * e + 2 * 0.9 * d * e).toFixed(3);
  return svg(680, 250, 'Two weights of 0.6, rounded alone and with error feedback', [
    row(60, 'each to its nearest code', 1, 1, power(0.4, 0.4)),
    row(176, 'the second makes up for the first', 1, 0, power(0.4, -0.6)),
  ]);
}

/** The staircase of rounding and the line through which gradients pass. */
function training() {
  const x = (w) => 340 + w * 90;
  const y = (q) => 130 - q * 28;
  const steps = [];
  for (let code = -3; code <= 3; code++) {
    steps.push([x(Math.max(-3.6, code - 0.5)), y(code)], [x(Math.min(3.6, code + 0.5)), y(code)]);
  }
  return svg(680, 280, 'Rounding forward, a straight line backward', [
    flat(130, 20, 660),
    line([
      [340, 20],
      [340, 245],
    ]),
    line(steps, 'a'),
    line(
      [
        [x(-3), y(-3)],
        [x(3), y(3)],
      ],
      'b dashed',
    ),
    text(652, 122, 'w / s', 'small', 'end'),
    text(352, 30, 'code', 'small', 'start'),
    text(x(2.2), y(3) - 12, 'forward: the code', 'small', 'end'),
    text(x(0.6), y(0) + 40, 'backward: slope 1 inside of the range,', 'small', 'start'),
    text(x(0.6), y(0) + 58, '0 outside of it', 'small', 'start'),
  ]);
}

/** All pictures by the names of their files. */
export const pictures = () => ({
  'bit_serial.svg': bitSerial(),
  'calibration.svg': calibration(),
  'convolution.svg': convolution(),
  'lookups.svg': lookups(),
  'quantization.svg': quantization(),
  'recovery.svg': recovery(),
  'requantization.svg': requantization(),
  'training.svg': training(),
  'winograd.svg': winograd(),
});

if (import.meta.url === `file://${process.argv[1]}`) {
  mkdirSync(FOLDER, { recursive: true });
  for (const [name, drawing] of Object.entries(pictures())) {
    writeFileSync(path.join(FOLDER, name), drawing);
  }
}

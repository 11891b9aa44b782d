// The forms of the comparison report, from a report made by hand. Needs dist, but not the engine.

import assert from 'node:assert/strict';
import test from 'node:test';
import {
  formatBytes,
  formatDb,
  formatReport,
  htmlReport,
  layerChart,
  metricRows,
  pairChart,
  table,
  worstLayers,
} from 'requant/report';

const layer = (name, snr, more = {}) => ({
  name,
  op: 'Conv',
  value: `${name}_out`,
  snr,
  cosine: 0.9999,
  maxAbs: 0.125,
  meanAbs: 0.01,
  range: 6.5,
  ...more,
});

const report = {
  samples: 1000,
  labelled: 1000,
  outputs: [{ name: 'logits', snr: 31.25, cosine: 0.99962, maxAbs: 0.4, meanAbs: 0.05, range: 20 }],
  top1: { float: 0.945, candidate: 0.944, agreement: 0.991 },
  layers: [
    layer('first', 40, { aloneSnr: 44, aloneCosine: 1, aloneMaxAbs: 0.1 }),
    layer('<script>alert("x")</script>', 20),
    layer('exact', null, { aloneSnr: null }),
    layer('middle', 30),
  ],
  size: { floatBytes: 331558, candidateBytes: 91000 },
  latency: { floatMs: 1.5, candidateMs: 0.5, ratio: 3 },
  memory: {
    float: { arena: 200704, lowerBound: 200704, packedWeights: 300000 },
    candidate: { arena: 50176, lowerBound: 50176, packedWeights: 80000 },
  },
};

test('numbers for people', () => {
  assert.equal(formatBytes(999), '999 B');
  assert.equal(formatBytes(331558), '331.6 kB');
  assert.equal(formatBytes(13968770), '13.97 MB');
  assert.equal(formatDb(null), 'exact');
  assert.equal(formatDb(undefined), '-');
  assert.equal(
    table(
      ['a', 'b'],
      [
        ['x', '10'],
        ['long', '2'],
      ],
    ),
    'a      b\n----  --\nx     10\nlong   2',
  );
});

test('text: all figures, worst layers first', () => {
  const text = formatReport(report, { layers: 2 });
  for (const part of [
    '94.50 %',
    '94.40 %',
    '-0.10 points',
    '99.10 %',
    '31.3 dB',
    '0.999620',
    '3.64 x',
  ]) {
    assert.ok(text.includes(part), `${part} in\n${text}`);
  }
  assert.ok(text.includes('3.00 x as fast') && text.includes('200.7 kB'), text);
  assert.ok(text.indexOf('<script>') < text.indexOf('middle'), text);
  assert.ok(!text.includes('first'), text);
  assert.deepEqual(
    worstLayers(report).map(({ snr }) => snr),
    [20, 30, 40, null],
  );
});

test('text: without labels and layers', () => {
  const bare = {
    ...report,
    labelled: 0,
    layers: [],
    top1: { float: null, candidate: null, agreement: 0.5 },
  };
  const text = formatReport(bare);
  assert.ok(
    !text.includes('accuracy') && !text.includes('Worst') && text.includes('50.00 %'),
    text,
  );
  assert.equal(metricRows(bare)[0].name, 'same top-1');
});

test('HTML: complete, escaped, self-contained', () => {
  const page = htmlReport(report, { title: 'A & B', subtitle: '<b>' });
  assert.ok(page.startsWith('<!doctype html>'));
  assert.ok(!page.includes('<script') && page.includes('&lt;script&gt;alert(&quot;x&quot;)'));
  assert.ok(page.includes('<title>A &amp; B</title>') && page.includes('&lt;b&gt;'));
  assert.ok(!/https?:|url\(|@import|src=|href=/.test(page), 'loads nothing');
  assert.ok(page.includes('prefers-color-scheme: dark'));
  assert.equal(page.match(/<svg /g).length, 2);
  assert.equal(page.match(/<svg /g).length, page.match(/<\/svg>/g).length);
  assert.ok(!/NaN|undefined|Infinity/.test(page));
});

test('charts: one bar a layer, circles where measured alone', () => {
  const chart = layerChart(report.layers);
  assert.equal(chart.match(/<g>/g).length, 4);
  assert.equal(chart.match(/<circle/g).length, 2, 'the legend and one layer');
  // Bars are proportional: 40 dB is twice as long as 20 dB.
  const widths = [...chart.matchAll(/<rect class="rq-int8" x="230"[^>]* width="([\d.]+)"/g)];
  assert.ok(Math.abs(Number(widths[0][1]) / Number(widths[1][1]) - 2) < 0.01);
  assert.equal(layerChart([]), '');
  const pair = pairChart([{ name: 'n', float: 4, candidate: 1, format: String }]);
  const bars = [...pair.matchAll(/width="([\d.]+)" height/g)].map((match) => Number(match[1]));
  assert.ok(Math.abs(bars[0] / bars[1] - 4) < 0.01);
  assert.ok(
    !/NaN|Infinity/.test(pairChart([{ name: 'z', float: 0, candidate: 0, format: String }])),
  );
});

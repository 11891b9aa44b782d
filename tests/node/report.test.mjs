// The forms of the comparison report, from a hand-made report. Needs dist, but not the engine.

import assert from 'node:assert/strict';
import test from 'node:test';
import {
  formatBytes,
  formatDb,
  formatReport,
  frontierChart,
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
  // Swatches of two keys, three pairs of bars, an axis and four layers.
  assert.equal(page.match(/<svg /g).length, 4 + 3 + 5);
  assert.equal(page.match(/<svg /g).length, page.match(/<\/svg>/g).length);
  assert.ok(!/NaN|undefined|Infinity/.test(page));
});

const shares = (html, kind) =>
  [...html.matchAll(new RegExp(`<rect class="${kind}" x="0"[^>]* width="([\\d.]+)%"`, 'g'))].map(
    (match) => Number(match[1]),
  );

test('charts: one bar a layer, circles where measured alone', () => {
  const chart = layerChart(report.layers);
  assert.equal(chart.match(/<li /g).length, 4);
  assert.equal(chart.match(/<circle/g).length, 2, 'the key and one layer');
  // Bars are proportional: 40 dB is twice as long as 20 dB. Without any error the bar has full length.
  const [first, script, exact] = shares(chart, 'rq-int8');
  assert.ok(Math.abs(first / script - 2) < 0.01);
  assert.equal(exact, 100);
  assert.match(chart, />40\.0<span class="rq-hidden"> dB, alone 44\.0 dB</);
  assert.match(chart, />exact<span class="rq-hidden">, alone exact</);
  assert.equal(layerChart([]), '');
  const pair = pairChart([{ name: 'n', float: 4, candidate: 1, format: String }]);
  assert.deepEqual([...shares(pair, 'rq-float'), ...shares(pair, 'rq-int8')], [100, 25]);
  assert.ok(
    !/NaN|Infinity/.test(pairChart([{ name: 'z', float: 0, candidate: 0, format: String }])),
  );
});

test('charts: names break between their words, and are shown whole', () => {
  const name = '/model/layers.0/self_attn/qkvProj<i>';
  const chart = layerChart([layer(name, 20)]);
  const shown = /<span class="rq-name">([^"]+?)<\/span><svg/.exec(chart)[1];
  assert.equal(shown, '/model/<wbr>layers.0/<wbr>self_<wbr>attn/<wbr>qkv<wbr>Proj&lt;i&gt;');
});

test('the frontier: round numbers at its axes, a circle where something was chosen', () => {
  const point = (bytes, snr, ms = 0) => ({ bytes, snr, ms, widths: {} });
  const frontier = [point(320, Infinity), point(254_000, 49), point(80_000, 38), point(16_000, -1)];
  const labels = (chart) =>
    [...chart.matchAll(/<text [^>]*>([^<]+)</g)].map((match) => match[1]).join(' ');
  const chart = frontierChart(frontier);
  assert.equal(labels(chart), '0 dB 10 dB 20 dB 30 dB 40 dB 0 B 50 kB 100 kB 150 kB 200 kB 250 kB');
  assert.ok(!chart.includes('<circle'));
  assert.match(chart, /aria-label="Size against accuracy, from 254\.0 kB at 49\.0 dB to 16\.0 kB/);
  const chosen = frontierChart(frontier, frontier[2]);
  assert.equal(chosen.match(/<circle/g).length, 1);
  assert.match(chosen, /chosen: 80\.0 kB at 38\.0 dB/);
  assert.ok(!frontierChart(frontier, frontier[0]).includes('<circle'), 'float has no noise');
  const times = [point(9, 40, 0.75), point(12, 20, 0.25)];
  assert.match(labels(frontierChart(times, undefined, 'ms')), /0 ms 0\.2 ms 0\.4 ms 0\.6 ms$/);
  for (const drawn of [chart, chosen]) assert.ok(!/NaN|undefined|Infinity/.test(drawn));
});

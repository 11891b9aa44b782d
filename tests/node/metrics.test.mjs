// The metrics of web/metrics, against answers computed by hand and against plain loops over the definitions.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Tensor } from '../../dist/index.js';
import { metricOf, metricTable } from '../../dist/metrics/table.js';
import { formatValue, isBetter } from '../../dist/metrics/unit.js';
import { isError } from './support.mjs';

/** A deterministic generator of numbers in [0, 1). */
function numbers(seed) {
  let state = seed * 2654435761 + 1;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const floats = (data, dims = [1, data.length]) => new Tensor('float32', data, dims);

/** The value of a metric for samples: [outputs, sample, float outputs]. */
async function valueOf(spec, samples) {
  const meter = metricOf(spec).meter();
  for (const [outputs, sample, float] of samples) {
    const named = (one) => (one instanceof Tensor ? { y: one } : one);
    await meter.add(named(outputs), { feeds: {}, ...sample }, named(float));
  }
  return meter.value();
}

const near = (value, expected, tolerance = 1e-9) =>
  assert.ok(Math.abs(value - expected) <= tolerance, `${value} instead of ${expected}`);

describe('accuracy', () => {
  const scores = floats([0.1, 0.5, 0.2, 0.5]);
  test('top-k counts classes ahead, the lower index first among equal ones', async () => {
    for (const [k, label, right] of [
      [1, 1, 1],
      [1, 3, 0],
      [2, 3, 1],
      [2, 2, 0],
      [3, 2, 1],
      [3, 0, 0],
      [4, 0, 1],
    ]) {
      assert.equal(await valueOf({ name: 'topk', k }, [[scores, { label }]]), right);
    }
  });

  test('top-1 and top-5 of random scores are those of a sorted list', async () => {
    const random = numbers(3);
    const samples = Array.from({ length: 200 }, () => [
      floats(Array.from({ length: 12 }, () => Math.round(8 * random()))),
      { label: Math.floor(12 * random()) },
    ]);
    for (const [name, k] of [
      ['top1', 1],
      ['top5', 5],
    ]) {
      const right = samples.filter(([{ data }, { label }]) =>
        [...data.keys()]
          .sort((a, b) => data[b] - data[a] || a - b)
          .slice(0, k)
          .includes(label),
      );
      assert.equal(await valueOf(name, samples), right.length / samples.length);
    }
  });

  test('batches have a label for each row; NaN is wrong', async () => {
    const rows = floats([1, 2, 3, 1, NaN, 0], [3, 2]);
    near(await valueOf('top1', [[rows, { target: [1, 0, 0] }]]), 2 / 3);
    await assert.rejects(
      valueOf('top1', [[rows, { target: [1, 0] }]]),
      isError('INVALID_ARGUMENT', { value: 'target', hint: /3 integers below 2/ }),
    );
    await assert.rejects(valueOf('top1', [[scores, { label: 4 }]]), isError('INVALID_ARGUMENT'));
    await assert.rejects(valueOf('top1', [[scores, {}]]), isError('INVALID_ARGUMENT'));
  });

  test('agreement compares answers with the float model', async () => {
    const other = floats([0, 1, 2, 0]);
    assert.equal(await valueOf('agreement', [[scores, {}, scores]]), 1);
    assert.equal(
      await valueOf('agreement', [
        [scores, {}, other],
        [other, {}, other],
      ]),
      0.5,
    );
    assert.equal(await valueOf('agreement', [[floats([NaN, 1]), {}, floats([0, 1])]]), 0);
  });
});

/** Intersection over union by counting cells of a fine grid of integers. */
function cells(a, b) {
  let [common, either] = [0, 0];
  for (let x = -2; x < 50; x++) {
    for (let y = -2; y < 50; y++) {
      const inside = ([x1, y1, x2, y2]) => x >= x1 && x < x2 && y >= y1 && y < y2;
      const [first, second] = [inside(a), inside(b)];
      if (first && second) common += 1;
      if (first || second) either += 1;
    }
  }
  return either > 0 ? common / either : 0;
}

function randomBoxes(random, images) {
  const whole = (limit) => Math.floor(limit * random());
  const box = () => {
    const [x, y] = [whole(25), whole(25)];
    return [x, y, x + 3 + whole(12), y + 3 + whole(12)];
  };
  const near = ([x1, y1, x2, y2]) => [x1 + whole(3) - 1, y1, x2 + whole(4) - 1, y2 + whole(3) - 1];
  return Array.from({ length: images }, () => {
    const truth = Array.from({ length: 1 + whole(4) }, () => ({ box: box(), label: whole(3) }));
    const found = truth
      .filter(() => random() < 0.8)
      .map((one) => ({ box: near(one.box), label: random() < 0.9 ? one.label : whole(3) }));
    for (let extra = whole(3); extra > 0; extra--) found.push({ box: box(), label: whole(3) });
    return { truth, found: found.map((one) => ({ ...one, score: random() })) };
  });
}

/** The detections that are right, by the rules of COCO or VOC, in the order of their scores. */
function rightOnes(images, label, threshold, voc) {
  const sorted = images
    .flatMap(({ found }, image) => found.map((one) => ({ ...one, image })))
    .filter((one) => one.label === label)
    .sort((a, b) => b.score - a.score);
  const taken = new Set();
  return sorted.map(({ box, image }) => {
    const own = images[image].truth.filter((one) => one.label === label);
    const free = voc ? own : own.filter((one) => !taken.has(one));
    const best = Math.max(-1, ...free.map((one) => cells(box, one.box)));
    const hit = best >= threshold ? free.filter((one) => cells(box, one.box) === best) : [];
    const one = voc ? hit[0] : hit.at(-1);
    const right = one !== undefined && !taken.has(one);
    if (one) taken.add(one);
    return right;
  });
}

/** The largest precision at a recall or beyond. */
function precisionAt(right, count, recall) {
  let best = 0;
  for (let end = 1; end <= right.length; end++) {
    const hits = right.slice(0, end).filter(Boolean).length;
    if (hits / count >= recall) best = Math.max(best, hits / end);
  }
  return best;
}

describe('detection', () => {
  const decode = ({ found }) => found;
  const coco = (samples) => valueOf({ name: 'coco_map', decode }, samples);
  const voc = (samples, options = {}) => valueOf({ name: 'voc_map', decode, ...options }, samples);
  const square = (side, x = 0) => [x, 0, x + side, side];
  const sample = (truth, found) => [{ found }, { target: truth }];

  test('mAP of COCO has the answers of its definition', async () => {
    const truth = [{ box: square(10), label: 1 }];
    assert.equal(await coco([sample(truth, [{ box: square(10), label: 1, score: 0.3 }])]), 1);
    assert.equal(await coco([sample(truth, [])]), 0);
    assert.equal(await coco([sample(truth, [{ box: square(10), label: 2, score: 0.3 }])]), 0);
    // An overlap of 0.62 is enough at 0.5, 0.55 and 0.6.
    near(await coco([sample(truth, [{ box: [0, 0, 10, 6.2], label: 1, score: 1 }])]), 0.3);
    // Right, wrong, right: a precision of 1 up to a recall of 0.5, then of 2/3.
    const two = [...truth, { box: square(10, 30), label: 1 }];
    const found = [
      { box: square(10), label: 1, score: 0.9 },
      { box: square(10, 60), label: 1, score: 0.8 },
      { box: square(10, 30), label: 1, score: 0.7 },
    ];
    near(await coco([sample(two, found)]), (51 + (50 * 2) / 3) / 101);
    // What lies in a group is neither right nor wrong.
    const crowd = [...truth, { box: square(50, 50), label: 1, crowd: true }];
    const inside = [
      { box: square(9, 60), label: 1, score: 0.9 },
      { box: square(9, 70), label: 1, score: 0.8 },
      { box: square(10), label: 1, score: 0.7 },
    ];
    assert.equal(await coco([sample(crowd, inside)]), 1);
    // Only the 100 best of a class in an image count.
    const many = Array.from({ length: 100 }, () => ({ box: square(10, 60), label: 1, score: 1 }));
    assert.equal(
      await coco([sample(truth, [...many, { box: square(10), label: 1, score: 0.5 }])]),
      0,
    );
  });

  test('mAP of VOC has the answers of its definition', async () => {
    const truth = [
      { box: square(10), label: 1 },
      { box: square(10, 30), label: 1 },
    ];
    const found = [
      { box: square(10), label: 1, score: 0.9 },
      { box: square(10), label: 1, score: 0.8 }, // the second of a box is wrong
      { box: square(10, 30), label: 1, score: 0.7 },
    ];
    near(await voc([sample(truth, found)]), 0.5 + (0.5 * 2) / 3);
    // Recalls 0 to 0.5 are six points, 0.6 to 1 five.
    near(await voc([sample(truth, found)], { points: '11' }), (6 + (5 * 2) / 3) / 11);
    const difficult = [truth[0], { ...truth[1], difficult: true }];
    near(await voc([sample(difficult, found)]), 1);
    near(await voc([sample(difficult, [found[2]])]), 0);
  });

  test('mAP of random boxes is that of plain loops', async () => {
    for (let seed = 1; seed <= 12; seed++) {
      const images = randomBoxes(numbers(seed), 6);
      const samples = images.map(({ truth, found }) => sample(truth, found));
      const labels = [0, 1, 2].filter((label) =>
        images.some(({ truth }) => truth.some((one) => one.label === label)),
      );
      const countOf = (label) =>
        images.flatMap(({ truth }) => truth).filter((one) => one.label === label).length;
      let [cocoSum, vocSum] = [0, 0];
      for (const label of labels) {
        const count = countOf(label);
        for (let step = 0; step < 10; step++) {
          const right = rightOnes(images, label, 0.5 + 0.05 * step - 1e-9, false);
          for (let point = 0; point <= 100; point++) {
            cocoSum += precisionAt(right, count, point / 100 - 1e-12) / 101;
          }
        }
        const right = rightOnes(images, label, 0.5, true);
        for (let hits = 1; hits <= count; hits++) {
          vocSum += precisionAt(right, count, hits / count) / count;
        }
      }
      near(await coco(samples), cocoSum / labels.length / 10, 1e-9);
      near(await voc(samples), vocSum / labels.length, 1e-9);
    }
  });

  test('boxes are read from the outputs of a non-maximum suppression', async () => {
    const outputs = {
      boxes: floats([5, 5, 10, 10, 35, 5, 10, 10, 0, 0, 1, 1], [1, 3, 4]),
      scores: floats([0.9, 0.8, 0.95]),
      classes: floats([1, 1, 1]),
      count: floats([2]),
    };
    const target = [
      { box: square(10), label: 1 },
      { box: square(10, 30), label: 1 },
    ];
    const names = { boxes: 'boxes', scores: 'scores', classes: 'classes' };
    const measure = (more, boxes = 'cxcywh', given = outputs) =>
      valueOf({ name: 'coco_map', outputs: { ...names, ...more }, boxes }, [[given, { target }]]);
    assert.equal(await measure({ count: 'count' }), 1);
    assert.ok((await measure({})) < 1);
    // ONNX's NonMaxSuppression: batch, class and box of each selected one.
    const selected = {
      boxes: floats([0, 0, 10, 10, 0, 30, 10, 40, 0, 0, 1, 1], [1, 3, 4]),
      scores: floats([0, 0, 0, 0.9, 0.8, 0.7], [1, 2, 3]),
      indices: new Tensor('int64', [0, 1, 0, 0, 1, 1], [2, 3]),
    };
    const { boxes, scores } = names;
    const spec = {
      name: 'coco_map',
      outputs: { boxes, scores, indices: 'indices' },
      boxes: 'yxyx',
    };
    assert.equal(await valueOf(spec, [[selected, { target }]]), 1);
    await assert.rejects(
      valueOf({ name: 'coco_map', outputs: { boxes, scores } }, [[selected, { target: [{}] }]]),
      isError('INVALID_ARGUMENT', { value: 'target', hint: /box: \[x1, y1, x2, y2\]/ }),
    );
    await assert.rejects(
      valueOf({ name: 'coco_map', decode: () => [{ box: 1 }] }, [[selected, { target }]]),
      isError('INVALID_ARGUMENT', { value: 'decode' }),
    );
  });
});

describe('other tasks', () => {
  test('mean IoU counts pixels over all samples, and not those that are ignored', async () => {
    // Classes of the pixels: 0 1 1 1; right are 0 1 0 and one that is ignored.
    const scores = floats([1, 0, 0, 0, 0, 1, 1, 1], [1, 2, 2, 2]);
    const target = Uint8Array.of(0, 1, 0, 255);
    near(await valueOf('miou', [[scores, { target }]]), (1 / 2 + 1 / 2) / 2);
    const classes = new Tensor('int64', [0, 1, 1, 1], [1, 2, 2]);
    near(await valueOf('miou', [[classes, { target }]]), 0.5);
    near(await valueOf({ name: 'miou', ignore: -1 }, [[classes, { target: [0, 1, 1, 1] }]]), 1);
    const last = floats([1, 0, 0, 1, 0, 1, 0, 1], [1, 2, 2, 2]);
    near(await valueOf({ name: 'miou', axis: 3 }, [[last, { target }]]), 0.5);
    // Two samples: class 0 has 1 of 3 pixels, class 1 has 2 of 4.
    const samples = [
      [classes, { target: [0, 1, 0, 1] }],
      [classes, { target: [1, 1, 1, 0] }],
    ];
    near(await valueOf('miou', samples), (1 / 4 + 4 / 7) / 2);
    await assert.rejects(
      valueOf('miou', [[scores, { target: [0, 1] }]]),
      isError('INVALID_ARGUMENT', { hint: /axis 1/ }),
    );
  });

  test('recall@k finds neighbors of the same label by cosine', async () => {
    const points = [
      [[1, 0], 'a'],
      [[2, 0.2], 'a'],
      [[0, 1], 'b'],
      [[0.9, 0.6], 'b'],
      [[-1, 0], 'c'],
    ].map(([data, target]) => [floats(data), { target }]);
    // Four have a partner. The second b is nearer to both a than to the first b.
    near(await valueOf('recall', points), 3 / 4);
    near(await valueOf({ name: 'recall', k: 2 }, points), 3 / 4);
    near(await valueOf({ name: 'recall', k: 3 }, points), 1);
    const random = numbers(5);
    const many = Array.from({ length: 40 }, (_, index) => ({
      data: Array.from({ length: 3 }, () => random() - 0.5),
      label: index % 7,
    }));
    const cosine = (a, b) => {
      const dot = (x, y) => x.reduce((sum, value, index) => sum + value * y[index], 0);
      return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
    };
    let found = 0;
    for (const query of many) {
      const others = many.filter((one) => one !== query);
      const same = others.filter((one) => one.label === query.label);
      const ahead = (one) =>
        others.filter((two) => cosine(query.data, two.data) > cosine(query.data, one.data)).length;
      if (same.some((one) => ahead(one) < 4)) found += 1;
    }
    const samples = many.map(({ data, label }) => [floats(data), { label }]);
    near(await valueOf({ name: 'recall', k: 4 }, samples), found / many.length);
  });

  test('error rates are those of the shortest edit', async () => {
    const texts = (pairs) => pairs.map(([given, target]) => [{ given }, { target }]);
    const decode = ({ given }) => given;
    const wer = (pairs) => valueOf({ name: 'wer', decode }, texts(pairs));
    const cer = (pairs) => valueOf({ name: 'cer', decode }, texts(pairs));
    assert.equal(await cer([['sitting', 'kitten']]), 3 / 6);
    assert.equal(await wer([['the cat sat', 'the cat sat']]), 0);
    assert.equal(await wer([['the  dog sat down', 'the cat sat']]), 2 / 3);
    assert.equal(await wer([['', 'one two']]), 1);
    // Edits and words are summed up over the samples.
    assert.equal(
      await wer([
        ['a b c d', 'a b c d'],
        ['x', 'y'],
      ]),
      1 / 5,
    );
    // The shortest edit by trying all of them.
    const edits = (a, b) =>
      a === '' || b === ''
        ? a.length + b.length
        : Math.min(
            edits(a.slice(1), b.slice(1)) + (a[0] === b[0] ? 0 : 1),
            edits(a.slice(1), b) + 1,
            edits(a, b.slice(1)) + 1,
          );
    const random = numbers(2);
    const word = () => Array.from({ length: 5 }, () => 'abc'[Math.floor(3 * random())]).join('');
    for (let index = 0; index < 20; index++) {
      const [a, b] = [word(), word()];
      assert.equal(await cer([[a, b]]), edits(a, b) / 5);
    }
  });

  test('scores of steps become a text by the best path', async () => {
    const path = [1, 1, 0, 1, 2, 2, 0, 0, 3];
    const data = path.flatMap((token) => [0, 1, 2, 3].map((one) => (one === token ? 2 : 0)));
    const vocabulary = ['-', 'a', 'b', ' c'];
    const sample = [[floats(data, [1, path.length, 4]), { target: 'aab c' }]];
    assert.equal(await valueOf({ name: 'cer', vocabulary }, sample), 0);
    assert.equal(await valueOf({ name: 'wer', vocabulary }, sample), 0);
    await assert.rejects(
      valueOf({ name: 'wer', vocabulary: ['-'] }, sample),
      isError('INVALID_ARGUMENT', { value: 'vocabulary' }),
    );
  });

  test('perplexity is e to the mean cross entropy', async () => {
    const logits = floats([0, 0, Math.log(3), 0, 5, 5], [1, 3, 2]);
    // Probabilities of the right tokens: 1/2, 3/4, 1/2.
    const expected = Math.exp(-(Math.log(1 / 2) + Math.log(3 / 4) + Math.log(1 / 2)) / 3);
    near(await valueOf('perplexity', [[logits, { target: [0, 0, 1] }]]), expected, 1e-6);
    near(await valueOf('perplexity', [[logits, { target: [0, -100, 1] }]]), 2, 1e-6);
    // A causal model predicts the next token: 0, then 1.
    const feeds = { input_ids: new Tensor('int64', [1, 0, 1], [1, 3]) };
    near(
      await valueOf('perplexity', [[logits, { feeds }]]),
      Math.exp(-(Math.log(1 / 2) + Math.log(1 / 4)) / 2),
      1e-6,
    );
    near(await valueOf('perplexity', [[floats([1e4, 0], [1, 1, 2]), { target: [0] }]]), 1);
    await assert.rejects(
      valueOf('perplexity', [[logits, { target: [0, 2, 0] }]]),
      isError('INVALID_ARGUMENT', { hint: /3 tokens below 2/ }),
    );
  });

  test('the area under the curve is the share of pairs in order', async () => {
    const random = numbers(9);
    const all = Array.from({ length: 60 }, () => ({
      score: Math.round(12 * random()),
      label: random() < 0.4 ? 1 : 0,
    }));
    let [sum, pairs] = [0, 0];
    for (const a of all.filter(({ label }) => label === 1)) {
      for (const b of all.filter(({ label }) => label === 0)) {
        sum += a.score > b.score ? 1 : a.score === b.score ? 0.5 : 0;
        pairs += 1;
      }
    }
    const one = all.map(({ score, label }) => [floats([score]), { label }]);
    near(await valueOf('auc', one), sum / pairs);
    const two = all.map(({ score, label }) => [floats([1, 1 + score]), { label }]);
    near(await valueOf('auc', two), sum / pairs);
    const third = all.map(({ score, label }) => [floats([9, 9, score]), { label }]);
    near(await valueOf({ name: 'auc', index: 2 }, third), sum / pairs);
    await assert.rejects(valueOf('auc', third), isError('INVALID_ARGUMENT', { value: 'index' }));
  });

  test('errors, ratios and cosines are those of plain sums', async () => {
    const [a, b] = [floats([1, 2, 2]), floats([1, 0, 4])];
    near(await valueOf('mse', [[b, {}, a]]), 8 / 3);
    near(await valueOf('snr', [[b, {}, a]]), 10 * Math.log10(9 / 8));
    assert.equal(await valueOf('snr', [[a, {}, a]]), Infinity);
    near(await valueOf('cosine', [[b, {}, a]]), 9 / (3 * Math.sqrt(17)));
    assert.equal(await valueOf('cosine', [[floats([0]), {}, floats([0])]]), 1);
    assert.equal(await valueOf('cosine', [[floats([0]), {}, floats([1])]]), 0);
    const against = (name) => valueOf({ name, against: 'target' }, [[b, { target: [1, 2, 2] }]]);
    near(await against('mse'), 8 / 3);
    near(await against('snr'), 10 * Math.log10(9 / 8));
    near(await against('cosine'), 9 / (3 * Math.sqrt(17)));
    await assert.rejects(
      valueOf({ name: 'mse', against: 'target' }, [[b, { label: 1 }]]),
      isError('INVALID_ARGUMENT', { hint: /3 numbers/ }),
    );
  });

  test('half floats and 64-bit integers are numbers', async () => {
    const half = new Tensor('float16', [1, 3, 2], [1, 3]);
    assert.equal(await valueOf('top1', [[half, { label: 1 }]]), 1);
    const long = new Tensor('int64', [1, 3, 2], [1, 3]);
    assert.equal(await valueOf('top1', [[long, { label: 2 }]]), 0);
  });
});

describe('metrics of the user', () => {
  const samples = [3, 1, 8].map((value) => [floats([value]), { target: 1 }, floats([0])]);
  const measure = ({ y }, { target }) => y.data[0] - target;

  test('are put together as they say', async () => {
    const with_ = (aggregate) => valueOf({ measure, better: 'lower', aggregate }, samples);
    assert.equal(await valueOf({ measure, better: 'lower' }, samples), 3);
    assert.equal(await with_('sum'), 9);
    assert.equal(await with_('min'), 0);
    assert.equal(await with_('max'), 7);
    assert.equal(await with_('median'), 2);
    assert.equal(await with_((values) => values.length), 3);
    const even = samples.slice(0, 2);
    assert.equal(await valueOf({ measure, better: 'lower', aggregate: 'median' }, even), 1);
  });

  test('may wait, and see the float model', async () => {
    const spec = { measure: async ({ y }, _sample, float) => y.data[0] - float.y.data[0] };
    assert.equal(await valueOf({ ...spec, better: 'higher' }, samples), 4);
    assert.equal(metricOf({ ...spec, better: 'higher' }).needsFloat, true);
    assert.equal(metricOf({ measure, better: 'higher' }).needsFloat, false);
  });

  test('say which values are better', () => {
    const refused = (spec, details) =>
      assert.throws(() => metricOf(spec), isError('INVALID_ARGUMENT', details));
    refused(measure, { hint: /better: 'higher'/ });
    refused({ measure }, { value: 'options.metric.better' });
    refused({ measure, better: 'more' }, { value: 'options.metric.better' });
    refused(
      { measure, better: 'higher', aggregate: 'mode' },
      { value: 'options.metric.aggregate' },
    );
    refused({ measure: 3, better: 'higher' }, { value: 'options.metric.measure' });
  });

  test('must give numbers', async () => {
    await assert.rejects(
      valueOf({ measure: () => 'much', better: 'higher' }, samples),
      isError('INVALID_ARGUMENT', { message: /measure gave "much"/ }),
    );
  });
});

test('names and options are checked', () => {
  const refused = (spec, details) =>
    assert.throws(() => metricOf(spec), isError('INVALID_ARGUMENT', details));
  refused('top2', { hint: /Did you mean "top1"/ });
  refused({ k: 3 }, { hint: /Known are: top1/ });
  refused({ name: 'topk', k: 0 }, { value: 'options.metric.k' });
  refused({ name: 'top1', k: 3 }, { value: 'options.metric.k' });
  refused({ name: 'coco_map' }, { value: 'metric.decode' });
  refused({ name: 'wer' }, { value: 'metric.decode' });
  refused({ name: 'coco_map', outputs: { boxes: 'a' } }, { value: 'metric.decode' });
  refused(7, {});
  assert.equal(metricOf({ name: 'topk', k: 3 }).name, 'top3');
  assert.equal(metricOf({ name: 'recall', k: 10 }).name, 'recall@10');
  for (const [name, { better }] of Object.entries(metricTable)) {
    assert.equal(better, ['wer', 'cer', 'perplexity', 'mse'].includes(name) ? 'lower' : 'higher');
  }
});

test('NaN is the worst value, and values have their units', () => {
  assert.equal(isBetter(NaN, -Infinity, 'higher'), false);
  assert.equal(isBetter(Infinity, NaN, 'lower'), true);
  assert.equal(isBetter(1, 2, 'lower'), true);
  assert.equal(formatValue(0.7125, 'share'), '71.25 %');
  assert.equal(formatValue(Infinity, 'dB'), 'infinite');
  assert.equal(formatValue(31.26, 'dB'), '31.3 dB');
  assert.equal(formatValue(12.3456789, 'number'), '12.346');
});

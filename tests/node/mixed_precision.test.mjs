// The choice of bits for a budget, compared with all possible choices.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mixedPrecision } from '../../dist/index.js';

/** A deterministic generator of numbers in [0, 1). */
function numbers(seed) {
  let state = seed * 2654435761 + 1;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const WIDTHS = [8, 4, 2, 32];

/** Layers whose noise grows as bits decrease, each by factors of its own. */
function analysisOf(random, count) {
  const operators = Array.from({ length: count }, (_, at) => {
    const noise = 10 ** (-5 + 2 * random());
    const noises = {
      8: noise,
      4: noise * (5 + 300 * random()),
      2: noise * (400 + 4000 * random()),
    };
    return { name: `layer${at}`, weights: Math.ceil(5000 * random()), noise: noises, aloneSnr: 30 };
  });
  return { operators, values: [] };
}

function* divisions(operators, at = 0) {
  if (at === operators.length) return yield { bytes: 0, noise: 0 };
  const { weights, noise } = operators[at];
  for (const rest of divisions(operators, at + 1)) {
    for (const width of WIDTHS) {
      yield {
        bytes: rest.bytes + Math.ceil((weights * width) / 8),
        noise: rest.noise + (width === 32 ? 0 : noise[width]),
      };
    }
  }
}

test('no division of bits within a budget has less noise', () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = numbers(seed);
    const analysis = analysisOf(random, 5);
    const all = [...divisions(analysis.operators)];
    const least = Math.min(...all.map(({ bytes }) => bytes));
    const most = Math.max(...all.map(({ bytes }) => bytes));
    // Budgets that are exact sums leave no room for rounding.
    for (const maxBytes of [least, all[seed].bytes, least + (most - least) * random() ** 2, most]) {
      const best = Math.min(
        ...all.filter(({ bytes }) => bytes <= maxBytes).map(({ noise }) => noise),
      );
      const { chosen } = mixedPrecision(analysis, { maxBytes });
      assert.ok(chosen.bytes <= maxBytes);
      const noise = 10 ** (-chosen.snr / 10);
      assert.ok(noise <= best * (1 + 1e-9), `seed ${seed}: ${noise} and ${best}`);
    }
  }
});

test('a budget that nothing meets is refused with what is needed', () => {
  const analysis = analysisOf(numbers(7), 4);
  assert.throws(() => mixedPrecision(analysis, { maxBytes: 10 }), {
    code: 'INVALID_ARGUMENT',
    hint: /The smallest needs \d+ bytes/,
  });
});

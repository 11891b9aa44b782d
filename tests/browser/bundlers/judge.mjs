// Decides which features of a row work, by the results of its checks.

/** The checks that a row can have, in the order of the table, and their titles there. */
export const CHECKS = {
  float: 'float',
  quantize: 'quantize()',
  w4a4: 'W4A4',
  threads: 'threads',
  worker: 'createWorker()',
  ownWorker: 'own Worker',
  generate: 'generateC()',
  policy: 'strict CSP',
};

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const agreeing = (a, b) => a.filter((answer, index) => answer === b[index]).length;

const judges = {
  float: ({ top1 }, { float }) => same(top1, float.top1) || 'other answers than in Node',
  quantize({ given, own }, { quantize, float }) {
    if (!same(given, quantize.given)) return 'other integers than in Node';
    return agreeing(own.top1, float.top1) >= 7 || `the answers are ${own.top1}`;
  },
  w4a4({ given, own }, { w4a4, float }) {
    if (!same(given, w4a4.given)) return 'other integers than in Node';
    return agreeing(own.top1, float.top1) >= 6 || `the answers are ${own.top1}`;
  },
  threads({ warning, ...runs }, { threads }) {
    if (warning) return warning;
    for (const [name, { used, ...answers }] of Object.entries(runs)) {
      if (used !== 2) return `${name} runs on one thread`;
      const expected = threads[name];
      const exact = name !== 'float';
      if (exact ? !same(answers.last, expected.last) : !same(answers.top1, expected.top1)) {
        return `${name} answers otherwise than in Node`;
      }
    }
    return true;
  },
  worker({ given, own }, { quantize, float }) {
    if (!same(given, quantize.given)) return 'other integers than in Node';
    return agreeing(own.top1, float.top1) >= 6 || `the answers are ${own.top1}`;
  },
  ownWorker(results, expected) {
    if (results.error) return results.error;
    for (const [name, result] of Object.entries(results)) {
      const why = judge(name, result, expected);
      if (why !== true) return `${name}: ${why}`;
    }
    return true;
  },
  generate: ({ functions, bytes }, { generate }) =>
    (functions && bytes === generate.bytes) || 'other C than in Node',
};

/** True, or the reason why a check fails. */
function judge(name, result, expected) {
  if (!result) return 'no answer';
  if (result.error) return result.error;
  return judges[name](result.value, expected);
}

/**
 * For each check by name, true or the reason why it fails, from the results of a row's page under a policy
 * and, if something fails there, `free` of one. A process has neither Workers of its own nor a policy.
 */
export function judgeRow(row, { strict, free }, expected) {
  const onPage = !row.run && !row.handler;
  const verdicts = {};
  let policy;
  for (const name of Object.keys(CHECKS)) {
    if (name === 'policy' || (name === 'ownWorker' && !onPage)) continue;
    verdicts[name] = judge(name, strict.results[name], expected);
    if (verdicts[name] === true || !free) continue;
    const why = verdicts[name];
    verdicts[name] = judge(name, free.results[name], expected);
    if (verdicts[name] === true) policy ??= `${name}: ${why}`;
  }
  if (onPage) verdicts.policy = policy ?? (free ? strict.problems[0] : undefined) ?? true;
  return verdicts;
}

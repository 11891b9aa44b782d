// Operators of ai.onnx.ml against ONNX Runtime: random tables, vectors and trees.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';
import { feedsOf, randomSource, runTheirs } from './ort_operators.mjs';
import { float } from './ort_quantized.mjs';
import { roundsOf } from './rounds.mjs';

const [FIRST, END] = roundsOf(24, 200);

function cases(name, run) {
  test(`${name}: random cases ${FIRST} to ${END - 1}`, async () => {
    for (let round = FIRST; round < END; round++) {
      const random = randomSource(name.length * 977 + round * 7919 + 1);
      const pick = (lo, hi) => lo + Math.floor(random() * (hi - lo + 1));
      for (let i = 0; i < 9; i++) random();
      await run(pick, random, round);
    }
  });
}
const list = (count, make) => Array.from({ length: count }, (_, i) => make(i));
const floats = (values) => `[${values.map(float).join(', ')}]`;
const ints = (values) => `[${values.join(', ')}]`;
const texts = (values) => `[${values.map((value) => `"${value}"`).join(', ')}]`;
const attributes = (entries) =>
  `{${Object.entries(entries)
    .map(([name, value]) => `${name} = ${value}`)
    .join(', ')}}`;

/** Compares `line` (an operator of ai.onnx.ml) with ONNX Runtime on its inputs. */
async function same(inputs, line, outputs = ['y'], { version = 3, tolerance = 1e-5 } = {}) {
  const text = [
    `graph "ml" opset 17, ai.onnx.ml ${version}`,
    ...Object.entries(inputs).map(([name, [type]]) => `input %${name}: ${type}`),
    line,
    ...outputs.map((name) => `output %${name}`),
  ].join('\n');
  const model = await parseModel(text);
  const feeds = feedsOf(inputs, 5);
  try {
    const theirs = await runTheirs(model.toOnnx(), feeds);
    for (const optimize of [true, false]) {
      const session = await InferenceSession.create(model.toOnnx(), { optimize });
      const ours = await session.run(
        Object.fromEntries(feeds.map((f) => [f.name, new Tensor(f.type, f.data, f.dims)])),
      );
      await session.release();
      for (const name of outputs) {
        assert.equal(ours[name].type, theirs[name].type, `${line}: ${name}`);
        assert.deepEqual([...ours[name].dims], [...theirs[name].dims], `${line}: ${name}`);
        theirs[name].data.forEach((want, i) => {
          const got = ours[name].data[i];
          const near =
            Object.is(Number(got), Number(want)) ||
            got === want ||
            Math.abs(Number(got) - Number(want)) <= tolerance * Math.max(1, Math.abs(Number(want)));
          assert.ok(near, `${line}: ${name}[${i}] is ${got}, not ${want}`);
        });
      }
    }
  } finally {
    model.dispose();
  }
}

const TRANSFORMS = ['NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO', 'PROBIT'];
const features = (random, dims, type = 'float32') => [
  `${type}[${dims.join(', ')}]`,
  list(
    dims.reduce((a, b) => a * b, 1),
    () => (type.startsWith('float') ? Math.fround(random() * 4 - 2) : Math.floor(random() * 6)),
  ),
];

describe('features', () => {
  cases('Scaler', async (pick, random, round) => {
    const columns = pick(1, 6);
    const each = random() < 0.7 ? columns : 1;
    await same(
      { x: features(random, [pick(1, 4), columns], ['float32', 'int64', 'float64'][round % 3]) },
      `%y = ai.onnx.ml::Scaler(%x) ${attributes({
        offset: floats(list(each, () => random() - 0.5)),
        scale: floats(list(each, () => random() * 3)),
      })}`,
    );
  });
  cases('Normalizer', async (pick, random, round) => {
    const x = features(random, [pick(1, 4), pick(1, 6)]);
    if (random() < 0.3) x[1].fill(0, 0, pick(0, x[1].length));
    await same(
      { x },
      `%y = ai.onnx.ml::Normalizer(%x) {norm = "${['MAX', 'L1', 'L2'][round % 3]}"}`,
    );
  });
  cases('Binarizer', async (pick, random) => {
    const x = features(random, [pick(1, 4), pick(1, 6)]);
    await same({ x }, `%y = ai.onnx.ml::Binarizer(%x) {threshold = ${float(random() - 0.5)}}`);
  });
  cases('ArrayFeatureExtractor', async (pick, random, round) => {
    const dims = list(pick(1, 3), () => pick(1, 5));
    const picked = list(pick(1, 4), () => pick(0, dims.at(-1) - 1));
    await same(
      {
        x: features(random, dims, ['float32', 'int64', 'float64', 'int32'][round % 4]),
        i: [`int64[${picked.length}]`, picked],
      },
      '%y = ai.onnx.ml::ArrayFeatureExtractor(%x, %i)',
    );
  });
  cases('FeatureVectorizer', async (pick, random) => {
    const [rows, count] = [pick(1, 3), pick(1, 3)];
    const widths = list(count, () => pick(1, 4));
    const inputs = Object.fromEntries(
      widths.map((width, i) => [`x${i}`, features(random, [rows, width])]),
    );
    await same(
      inputs,
      `%y = ai.onnx.ml::FeatureVectorizer(${widths.map((_, i) => `%x${i}`).join(', ')}) ` +
        `{inputdimensions = ${ints(widths)}}`,
      ['y'],
      { version: 1 },
    );
  });
  cases('Imputer', async (pick, random, round) => {
    const columns = pick(1, 5);
    const each = random() < 0.6 ? columns : 1;
    const type = round % 2 ? 'float32' : 'int64';
    const x = features(random, [pick(1, 4), columns], type);
    const nan = round % 4 === 1;
    if (type === 'float32') x[1] = x[1].map((v) => (random() < 0.3 ? (nan ? NaN : 0.5) : v));
    await same(
      { x },
      `%y = ai.onnx.ml::Imputer(%x) ${attributes(
        type === 'float32'
          ? {
              imputed_value_floats: floats(list(each, () => random())),
              replaced_value_float: nan ? 'nan' : '0.5',
            }
          : {
              imputed_value_int64s: ints(list(each, () => pick(-9, 9))),
              replaced_value_int64: pick(0, 5),
            },
      )}`,
    );
  });
  cases('OneHotEncoder', async (pick, random, round) => {
    const cats = list(pick(1, 6), (i) => i);
    const x = features(
      random,
      list(pick(1, 2), () => pick(1, 4)),
      ['int64', 'float32'][round % 2],
    );
    x[1] = x[1].map((v) => Math.abs(Math.trunc(v)));
    await same(
      { x },
      `%y = ai.onnx.ml::OneHotEncoder(%x) {cats_int64s = ${ints(cats)}, zeros = 1}`,
    );
  });
  cases('LabelEncoder', async (pick, random, round) => {
    const count = pick(1, 6);
    const keys = list(count, (i) => i);
    const integer = round % 2 === 0;
    const [from, to] = [integer ? 'int64' : 'float32', random() < 0.5 ? 'int64' : 'float32'];
    const x = features(random, [pick(1, 5)], from);
    if (!integer) x[1] = x[1].map((v) => Math.trunc(v * 3));
    await same(
      { x },
      `%y = ai.onnx.ml::LabelEncoder(%x) ${attributes({
        ...(integer ? { keys_int64s: ints(keys) } : { keys_floats: floats(keys) }),
        ...(to === 'int64'
          ? { values_int64s: ints(keys.map(() => pick(-9, 9))), default_int64: pick(-3, 3) }
          : { values_floats: floats(keys.map(() => random())), default_float: '0.25' }),
      })}`,
      ['y'],
      { version: 2 },
    );
  });
});

describe('linear models', () => {
  cases('LinearRegressor', async (pick, random, round) => {
    const [columns, targets] = [pick(1, 6), pick(1, 4)];
    const transform = TRANSFORMS[targets === 1 ? [0, 2][round % 2] : round % 4];
    await same(
      { x: features(random, [pick(1, 4), columns]) },
      `%y = ai.onnx.ml::LinearRegressor(%x) ${attributes({
        coefficients: floats(list(columns * targets, () => random() - 0.5)),
        ...(random() < 0.7 ? { intercepts: floats(list(targets, () => random())) } : {}),
        targets,
        post_transform: `"${transform}"`,
      })}`,
    );
  });
  cases('LinearClassifier', async (pick, random, round) => {
    const columns = pick(1, 6);
    const single = round % 3 === 0;
    const classes = single ? 1 : pick(2, 5);
    const labels = single ? [3, 8] : list(classes, (i) => i * 2 + 1);
    const transform = TRANSFORMS[single ? [0, 2][round % 2] : round % 4];
    await same(
      { x: features(random, [pick(1, 4), columns], ['float32', 'int64', 'float64'][pick(0, 2)]) },
      `%y, %z = ai.onnx.ml::LinearClassifier(%x) ${attributes({
        coefficients: floats(list(columns * classes, () => random() - 0.5)),
        intercepts: floats(list(classes, () => random() - 0.5)),
        classlabels_ints: ints(labels),
        post_transform: `"${transform}"`,
        multi_class: 1,
      })}`,
      ['y', 'z'],
      { version: 1 },
    );
  });
});

describe('support vectors', () => {
  const kernel = (pick, random) => ({
    kernel_type: `"${['LINEAR', 'POLY', 'RBF', 'SIGMOID'][pick(0, 3)]}"`,
    kernel_params: floats([0.1 + random() * 0.3, random(), pick(1, 3)]),
  });
  cases('SVMRegressor', async (pick, random, round) => {
    const [columns, count] = [pick(1, 5), pick(1, 6)];
    const linear = round % 4 === 0;
    await same(
      { x: features(random, [pick(1, 4), columns]) },
      `%y = ai.onnx.ml::SVMRegressor(%x) ${attributes({
        ...kernel(pick, random),
        ...(linear
          ? { coefficients: floats(list(columns, () => random() - 0.5)), kernel_type: '"LINEAR"' }
          : {
              support_vectors: floats(list(columns * count, () => random() * 2 - 1)),
              coefficients: floats(list(count, () => random() - 0.5)),
              n_supports: count,
            }),
        rho: floats([random() - 0.5]),
        one_class: round % 5 === 0 ? 1 : 0,
      })}`,
      ['y'],
      { version: 1, tolerance: 5e-5 },
    );
  });
  cases('SVMClassifier', async (pick, random, round) => {
    const columns = pick(1, 5);
    const linear = round % 4 === 3;
    const classes = linear ? pick(3, 4) : pick(2, 4);
    const counts = list(classes, () => pick(1, 3));
    const vectors = counts.reduce((a, b) => a + b, 0);
    const pairs = (classes * (classes - 1)) / 2;
    const probable = !linear && round % 2 === 0;
    await same(
      { x: features(random, [pick(1, 4), columns]) },
      `%y, %z = ai.onnx.ml::SVMClassifier(%x) ${attributes({
        ...kernel(pick, random),
        ...(linear
          ? {
              coefficients: floats(list(classes * columns, () => random() - 0.5)),
              kernel_type: '"LINEAR"',
              rho: floats([random() - 0.5]),
            }
          : {
              support_vectors: floats(list(columns * vectors, () => random() * 2 - 1)),
              coefficients: floats(list(vectors * (classes - 1), () => random() - 0.5)),
              vectors_per_class: ints(counts),
              rho: floats(list(pairs, () => random() * 0.4 - 0.2)),
            }),
        ...(probable
          ? {
              prob_a: floats(list(pairs, () => -1 - random())),
              prob_b: floats(list(pairs, () => random() * 0.2)),
            }
          : {}),
        classlabels_ints: ints(list(classes, (i) => 2 * i + 3)),
        post_transform: `"${probable ? 'NONE' : TRANSFORMS[classes === 2 ? [0, 2][pick(0, 1)] : pick(0, 2)]}"`,
      })}`,
      ['y', 'z'],
      { version: 1, tolerance: 1e-4 },
    );
  });
});

/** Random trees in the lists of the older operators. */
function trees(pick, random, { columns, targets, modes, only, positive }) {
  const nodes = {
    tree: [],
    id: [],
    feature: [],
    value: [],
    mode: [],
    yes: [],
    no: [],
    missing: [],
  };
  const leaves = { tree: [], node: [], id: [], weight: [] };
  const count = pick(1, 4);
  for (let tree = 0; tree < count; tree++) {
    let next = 0;
    const grow = (depth) => {
      const id = next++;
      const leaf = depth === 0 || random() < 0.2;
      const at = nodes.id.length;
      nodes.tree.push(tree);
      nodes.id.push(id);
      nodes.feature.push(leaf ? 0 : pick(0, columns - 1));
      nodes.value.push(leaf ? 0 : Math.fround(random() * 2 - 1));
      nodes.mode.push(leaf ? 'LEAF' : modes[pick(0, modes.length - 1)]);
      nodes.missing.push(pick(0, 1));
      nodes.yes.push(0);
      nodes.no.push(0);
      if (leaf) {
        for (const target of only === undefined ? list(targets, (i) => i) : [only]) {
          leaves.tree.push(tree);
          leaves.node.push(id);
          leaves.id.push(target);
          leaves.weight.push(Math.fround(positive ? random() / count : random() - 0.5));
        }
        return id;
      }
      nodes.yes[at] = grow(depth - 1);
      nodes.no[at] = grow(depth - 1);
      return id;
    };
    grow(pick(1, 3));
  }
  return {
    count,
    lists: {
      nodes_treeids: ints(nodes.tree),
      nodes_nodeids: ints(nodes.id),
      nodes_featureids: ints(nodes.feature),
      nodes_values: floats(nodes.value),
      nodes_modes: texts(nodes.mode),
      nodes_truenodeids: ints(nodes.yes),
      nodes_falsenodeids: ints(nodes.no),
      nodes_missing_value_tracks_true: ints(nodes.missing),
    },
    leaves,
  };
}
const MODES = ['BRANCH_LEQ', 'BRANCH_LT', 'BRANCH_GTE', 'BRANCH_GT', 'BRANCH_EQ', 'BRANCH_NEQ'];
const withMissing = (random, x) => [x[0], x[1].map((v) => (random() < 0.15 ? NaN : v))];

describe('trees', () => {
  cases('TreeEnsembleRegressor', async (pick, random, round) => {
    const [columns, targets] = [pick(1, 5), pick(1, 3)];
    const modes = round % 2 ? [MODES[pick(0, 5)]] : MODES;
    const { lists, leaves } = trees(pick, random, { columns, targets, modes });
    await same(
      { x: withMissing(random, features(random, [pick(1, 6), columns])) },
      `%y = ai.onnx.ml::TreeEnsembleRegressor(%x) ${attributes({
        ...lists,
        target_treeids: ints(leaves.tree),
        target_nodeids: ints(leaves.node),
        target_ids: ints(leaves.id),
        target_weights: floats(leaves.weight),
        n_targets: targets,
        aggregate_function: `"${['SUM', 'AVERAGE', 'MIN', 'MAX'][round % 4]}"`,
        ...(random() < 0.5 ? { base_values: floats(list(targets, () => random())) } : {}),
        post_transform: `"${TRANSFORMS[targets === 1 ? [0, 2][pick(0, 1)] : pick(0, 3)]}"`,
      })}`,
    );
  });
  cases('TreeEnsembleClassifier', async (pick, random, round) => {
    const [columns, classes] = [pick(1, 5), pick(2, 4)];
    const only = classes === 2 && round % 2 ? pick(0, 1) : undefined;
    const positive = round % 3 === 0;
    const { lists, leaves } = trees(pick, random, {
      columns,
      targets: classes,
      modes: ['BRANCH_LEQ'],
      only,
      positive,
    });
    await same(
      { x: withMissing(random, features(random, [pick(1, 6), columns])) },
      `%y, %z = ai.onnx.ml::TreeEnsembleClassifier(%x) ${attributes({
        ...lists,
        class_treeids: ints(leaves.tree),
        class_nodeids: ints(leaves.node),
        class_ids: ints(leaves.id),
        class_weights: floats(leaves.weight),
        classlabels_int64s: ints(list(classes, (i) => 5 + 3 * i)),
        ...(random() < 0.4 && classes > 2
          ? { base_values: floats(list(classes, () => random() - 0.5)) }
          : {}),
        post_transform: `"${TRANSFORMS[classes === 2 ? [0, 2][pick(0, 1)] : pick(0, 3)]}"`,
      })}`,
      // ONNX Runtime's label is 0 or 1 where both of two classes have scores, whatever the labels are.
      classes === 2 && only === undefined ? ['z'] : ['y', 'z'],
    );
  });
});

// The tables of docs/benchmarks.md, each made from the result that one benchmark printed with --json. A table
// is `{ text, header, rows }`: the sentence above it, the cells of its first line, and those of the others; a
// table without `rows` is a sentence alone.

import { NETWORKS } from './networks.mjs';

/** The measured low-bit forms, with the bits of weights (W) and activations (A). */
export const FORMS = ['w4a4', 'w2a2', 'w1a1'];
const titleOf = (form) => form.toUpperCase();

const digits = (value, count) =>
  value >= 10 ** (count - 1) ? value.toFixed(0) : value.toPrecision(count);
const ms = (of) => (of ? digits(of.median, 3) : '');
const ratio = (of) =>
  of ? `${of.median.toFixed(2)} [${of.min.toFixed(2)}-${of.max.toFixed(2)}]` : '';
const percent = (value) => (Number.isFinite(value) ? `${(100 * value).toFixed(0)} %` : '');
const kilobytes = (bytes) => (bytes / 1e3).toFixed(0);
const title = (name) => NETWORKS[name].title;

/**
 * A table with a column for each network: `rows` are `[label, cell of a network's result]`; empty rows are
 * left out.
 */
function byNetwork(text, networks, rows) {
  return {
    text,
    header: ['', ...networks.map(({ network }) => title(network))],
    rows: rows
      .map(([label, cell]) => [label, ...networks.map((result) => cell(result) ?? '')])
      .filter(([, ...cells]) => cells.some((cell) => cell !== '')),
  };
}

const time = (label) => (result) => ms(result.times[label]);
const betterOfOrt = (result) => ms(result.times[result.ortInt8]);
const times = (label) => (result) => ratio(result.ratios[label]);

const LATENCY_ROWS = [
  ['float', time('float')],
  ['8 bits', time('int8')],
  ['8 bits, 7-bit weights', time('int8, 7-bit weights')],
  ['8 bits, the same file', time('int8, same file')],
  ...FORMS.map((form) => [titleOf(form), time(form)]),
  ['onnxruntime-web, float', time('ort float')],
  ['onnxruntime-web, 8 bits', betterOfOrt],
  ['LiteRT.js, float', time('LiteRT float')],
  ['LiteRT.js, 8 bits', time('LiteRT int8')],
];

const RATIO_ROWS = [
  ['float : onnxruntime-web, float', times('float : ort float')],
  ['the same file : onnxruntime-web, 8 bits', times('same file : ort int8')],
  ['8 bits : onnxruntime-web, 8 bits', times('int8 : ort int8')],
  ['float : LiteRT.js, float', times('float : LiteRT float')],
  ['8 bits : LiteRT.js, 8 bits', times('int8 : LiteRT int8')],
  ['8 bits : float', times('int8 : float')],
  ['7-bit weights : float', times('7-bit : float')],
  ...FORMS.flatMap((form) => [
    [`${titleOf(form)} : 8 bits`, times(`${form} : int8`)],
    [`${titleOf(form)} : onnxruntime-web, float`, times(`${form} : ort float`)],
  ]),
];

export function latencyTables({ networks, rounds }) {
  const tables = [
    byNetwork(
      `Milliseconds of a run, median of ${rounds} rounds, one thread:`,
      networks,
      LATENCY_ROWS,
    ),
    byNetwork('How many times as fast the first is as the second:', networks, RATIO_ROWS),
  ];
  const agreements = networks.map(({ agreement }) => agreement).filter(Boolean);
  if (agreements.length > 0) {
    const least = (key) => Math.min(...agreements.map((one) => one[key] ?? Infinity));
    const db = (value) => (value === Infinity ? 'in every bit' : `to ${value.toFixed(0)} dB`);
    tables.push({
      text: `The outputs of both engines agree ${db(least('float'))} on the float files and ${db(least('int8'))} on the 8-bit files.`,
    });
  }
  return tables;
}

const COLD = {
  ours: 'this package',
  'saved plan': 'this package, saved plan',
  'second visit': 'this package, second visit',
  ort: 'onnxruntime-web',
  litert: 'LiteRT.js',
};

export function coldTables({ cold }) {
  const rows = Object.entries(COLD)
    .filter(([key]) => cold[key])
    .map(([key, label]) => {
      const { first, own, ratio: slower, wasm, js } = cold[key];
      return [
        label,
        ms(own),
        ratio(slower),
        ms(first),
        kilobytes(wasm.brotli),
        kilobytes(js.brotli),
      ];
    });
  return [
    {
      text: 'Cold start of MobileNetV2 in 8 bits, milliseconds until the first result, and what the page fetched beside the model:',
      header: ['', 'engine', 'times ours', 'with the page', 'wasm, kB', 'JavaScript, kB'],
      rows,
    },
  ];
}

export function threadTables({ networks, rounds, threads }) {
  const rows = Object.entries(networks).flatMap(([name, forms]) =>
    Object.entries(forms).map(([form, { one, more, ratio: faster }]) => [
      `${title(name)}, ${form === 'int8' ? '8 bits' : form}`,
      ms(one),
      ms(more),
      ratio(faster),
    ]),
  );
  return [
    {
      text: `Milliseconds, median of ${rounds} rounds; the outputs are the same bits:`,
      header: ['', 'one thread', `${threads} threads`, 'times as fast'],
      rows,
    },
  ];
}

export function memoryTables({ results, repeats }) {
  return [
    {
      text: `MiB that a Node process needs more than one that does nothing, median of ${repeats} processes, 8 bits:`,
      header: ['', '', 'this package', 'onnxruntime-web', 'ours : theirs'],
      rows: results.map(({ network, what, ours, ort, ratio: share }) => [
        title(network),
        what === 'peak' ? 'at most' : 'after 20 runs',
        ours.median.toFixed(0),
        ort.median.toFixed(0),
        percent(share),
      ]),
    },
  ];
}

export function bytesTables({ networks }) {
  const rows = networks.flatMap(({ network, rows: forms }) => {
    const [int8] = forms;
    const cell = (value, all) => `${kilobytes(value)} (${percent(value / all)})`;
    return forms.map(({ form, file, weights, plan }) => [
      `${title(network)}, ${form === 'int8' ? '8 bits' : titleOf(form)}`,
      cell(file, int8.file),
      cell(weights, int8.weights),
      cell(plan, int8.plan),
    ]);
  });
  return [
    {
      text: 'kB, and the share of what 8 bits take; the first and the last layer keep 8 bits in every form:',
      header: ['', 'file', 'weights in memory', 'saved plan'],
      rows,
    },
  ];
}

export function blockTables({ report, rounds }) {
  const rows = report.map(({ m, k, times: of, ratios }) => [
    `${m} x ${k} by ${k} x ${k}`,
    ...['4-bit, int8', '4-bit, float', 'float', 'ort 4-bit, int8', 'ort float'].map((label) =>
      ms(of[label]),
    ),
    ratio(ratios['4-bit, int8 : float']),
    ratio(ratios['4-bit, int8 : ort']),
  ]);
  return [
    {
      text: `One product, milliseconds, median of ${rounds} rounds; "8 bits" and "float" are those of activations:`,
      header: [
        '',
        '4-bit weights, 8 bits',
        '4-bit weights, float',
        'float weights',
        'onnxruntime-web, 4 bits',
        'onnxruntime-web, float',
        '4-bit, 8 bits : float',
        '4-bit, 8 bits : onnxruntime-web',
      ],
      rows,
    },
  ];
}

const SHARES = {
  float: 'float',
  int8: '8 bits, as chosen',
  'int8 by i16 products': '8 bits by 16-bit products',
  '7-bit weights by relaxed dots': '7-bit weights by 7-bit products',
  'w4a4, as chosen': 'W4A4, as chosen',
  w1a1: 'W1A1',
};
const CEILINGS = {
  f32: 'float',
  i16: '16-bit products',
  dot7: '7-bit products',
  dot8: 'products of whole bytes',
  narrow: 'products of few bits in 16 bits',
  lookup: 'lookups of one bit',
};

export function shareTables({ ceilings, networks }) {
  const names = Object.keys(networks);
  return [
    {
      text: 'What the best loop of each arithmetic does with its operands in the first cache, billions of operations a second:',
      header: Object.values(CEILINGS),
      rows: [Object.keys(CEILINGS).map((key) => (ceilings[key] ? digits(ceilings[key], 3) : '-'))],
    },
    {
      text: 'What layers of at least 64 channels reach of their loop, all together and, in brackets, the least of them:',
      header: ['', ...names.map(title)],
      rows: Object.entries(SHARES)
        .filter(([form]) => names.every((name) => networks[name][form]))
        .map(([form, label]) => [
          label,
          ...names.map((name) => {
            const { wideShare, least } = networks[name][form];
            return Number.isFinite(wideShare) ? `${percent(wideShare)} (${percent(least)})` : '';
          }),
        ]),
    },
  ];
}

export function foreignTables({ models, rounds }) {
  return [
    {
      text: `Errors are the largest of an output by its largest magnitude, against the outputs that lie beside the model; milliseconds are medians of ${rounds} rounds, one thread:`,
      header: [
        'model',
        'error, onnxruntime-web',
        'error, ours',
        'ms, onnxruntime-web',
        'ms, ours',
        'times as fast',
      ],
      rows: models.map(({ name, errors, times: of, ratio: faster }) => [
        name,
        errors.ort,
        errors.ours,
        of ? ms(of.ort) : '-',
        of ? ms(of.ours) : '-',
        of ? ratio(faster) : '-',
      ]),
    },
  ];
}

export function graphTables({ networks, rounds }) {
  return [
    {
      text: `Float networks with the graph as the file has it against the optimized one; milliseconds, median of ${rounds} rounds:`,
      header: ['network', 'operators', 'optimized', 'ms', 'ms, optimized', 'times as fast'],
      rows: networks.map(({ name, operators, times: of, ratio: faster }) => [
        name,
        String(operators.before),
        String(operators.after),
        ms(of.before),
        ms(of.after),
        ratio(faster),
      ]),
    },
  ];
}

export function transformerTables({ cases, rounds }) {
  return [
    {
      text: `Milliseconds, median of ${rounds} rounds, one thread, the same file:`,
      header: ['', 'onnxruntime-web', 'this package', 'times as fast'],
      rows: Object.entries(cases).map(([name, { ort, ours, ratio: faster }]) => [
        name,
        ms(ort),
        ms(ours),
        ratio(faster),
      ]),
    },
  ];
}

export function subnetworkTables({ cases, rounds }) {
  const decibels = (value) => (Number.isFinite(value) ? value.toFixed(0) : '-');
  const or = (text) => text || '-';
  return [
    {
      text: `Parts that \`requant extract\` cut out; milliseconds, median of ${rounds} rounds, one thread:`,
      header: [
        'part',
        'of',
        'float',
        '8 bits',
        'W4A4',
        'onnxruntime-web, float',
        'onnxruntime-web, 8 bits',
      ],
      rows: Object.entries(cases).map(([name, { source, times: of, ortInt8 }]) => [
        name,
        source,
        ...[of.float, of.int8, of.w4a4, of['ort float'], of[ortInt8]].map((one) => or(ms(one))),
      ]),
    },
    {
      text: 'How many times as fast as the other, round by round, and the signal to noise ratio of the output against float, in dB:',
      header: [
        'part',
        'float : onnxruntime-web, float',
        '8 bits : onnxruntime-web, 8 bits',
        'W4A4 : 8 bits',
        'dB, 8 bits',
        'dB, W4A4',
      ],
      rows: Object.entries(cases).map(([name, { ratios: faster, snr }]) => [
        name,
        or(ratio(faster.float)),
        or(ratio(faster.int8)),
        or(ratio(faster.w4a4)),
        decibels(snr.int8),
        decibels(snr.w4a4),
      ]),
    },
  ];
}

/** Operators below this ratio have a row of their own. */
const SLOWER = 0.9;

export function operatorTables({ cases, rounds }) {
  const all = Object.entries(cases);
  const kinds = [...new Set(all.map(([, { kind }]) => kind))];
  const sorted = (rows) => rows.toSorted((a, b) => a[1].ratio.median - b[1].ratio.median);
  const cell = ([name, { ratio: of }]) => `${of.median.toFixed(2)} (${name})`;
  return [
    {
      text: `Single operators, how many times as fast as onnxruntime-web's, median of ${rounds} rounds, one thread:`,
      header: ['kind', 'operators', 'least', 'median', 'most'],
      rows: kinds.map((kind) => {
        const rows = sorted(all.filter(([, one]) => one.kind === kind));
        const middle = rows[rows.length >> 1][1].ratio.median.toFixed(2);
        return [kind, String(rows.length), cell(rows[0]), middle, cell(rows.at(-1))];
      }),
    },
    {
      text: `Those below ${SLOWER}; milliseconds:`,
      header: ['operator', 'requant', 'onnxruntime-web', 'times as fast'],
      rows: sorted(all.filter(([, one]) => one.ratio.median < SLOWER)).map(([name, one]) => [
        name,
        ms(one.times.float),
        ms(one.times['ort float']),
        ratio(one.ratio),
      ]),
    },
  ];
}

export function trainingTables({ batch, rounds, networks }) {
  return [
    {
      text: `Images a second that a training learns from, in batches of ${batch}, median of ${rounds} rounds, one thread each:`,
      header: ['network', '', 'requant', 'PyTorch', 'times as fast'],
      rows: Object.entries(networks).flatMap(([name, of]) =>
        Object.entries(of).map(([kind, { images, ratio: faster }]) => [
          name,
          kind,
          images.requant.toFixed(0),
          images.torch.toFixed(0),
          ratio(faster),
        ]),
      ),
    },
  ];
}

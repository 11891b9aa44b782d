// The metrics that have names: one row each.

import { invalidArgument, show } from '../base/errors.js';
import { checkKind, suggest } from '../base/options.js';
import {
  type ConfigOf,
  type Schema,
  checkSchema,
  choice,
  integer,
  number,
  other,
} from '../base/schema.js';
import { type Against, meanCosine, meanSquaredError, signalToNoise } from './against.js';
import { agreement } from './agreement.js';
import { areaUnderRoc } from './auc.js';
import { type DecodeBoxes, type NmsOutputs, boxForms, decodeNms } from './boxes.js';
import { cocoMap } from './coco.js';
import { type DecodeText, decodeCtc, errorRate } from './error_rate.js';
import type { Meter, Metric } from './metric.js';
import type { MetricUnit } from './unit.js';
import { meanIou } from './miou.js';
import { type OwnMetric, ownMetric } from './own.js';
import { perplexity } from './perplexity.js';
import { recall } from './recall.js';
import { topk } from './topk.js';
import { vocMap } from './voc.js';

interface Row<S extends Schema> {
  better: Metric['better'];
  unit: MetricUnit;
  options: S;
  /** Whether the outputs of the float model are needed. */
  float: (options: ConfigOf<S>) => boolean;
  make: (options: ConfigOf<S>) => Meter;
}

/** Infers the type of the options. */
const row = <const S extends Schema>(one: Row<S>): Row<S> => one;

const never = () => false;
const always = () => true;
const text = other<string>('any', 'a text');

/** The name of the output that is read. Default: the first one. */
const output = { output: text };

const against = {
  ...output,
  /** Where the right numbers come from. Default 'float'. */
  against: choice('float', 'target'),
};

const boxes = {
  /** A function that makes `[{ box: [x1, y1, x2, y2], label, score }]` of the outputs. */
  decode: other<DecodeBoxes>('function', 'a function'),
  /** Instead: the names of the outputs of a non-maximum suppression. */
  outputs: other<NmsOutputs>(),
  /** For `outputs`: what the four numbers of a box are. Default 'xyxy'. */
  boxes: choice(...boxForms),
};

const texts = {
  ...output,
  /** A function that makes a text of the outputs. */
  decode: other<DecodeText>('function', 'a function'),
  /** Instead, for outputs of scores [1, steps, tokens]: the tokens. */
  vocabulary: other<readonly string[]>('any', 'an array of texts'),
  /** For `vocabulary`: the index of the blank. Default 0. */
  blank: integer(0),
};

const toTarget = ({ against: how = 'float' }: { against?: Against }) => how === 'float';

function boxesOf({ decode, outputs, boxes: form = 'xyxy' }: ConfigOf<typeof boxes>): DecodeBoxes {
  if (decode) return decode;
  if (typeof outputs?.boxes === 'string' && typeof outputs.scores === 'string') {
    return decodeNms(outputs, form);
  }
  throw invalidArgument(
    'nothing says how to read boxes',
    'metric.decode',
    'Give decode, a function, or outputs: { boxes, scores, classes }, their names.',
  );
}

function textOf({
  decode,
  vocabulary,
  blank = 0,
  output: name,
}: ConfigOf<typeof texts>): DecodeText {
  if (decode) return decode;
  if (Array.isArray(vocabulary)) return decodeCtc(vocabulary, blank, name);
  throw invalidArgument(
    'nothing says how to read texts',
    'metric.decode',
    'Give decode, a function, or a vocabulary.',
  );
}

const share = number('above 0 and at most 1', (value) => value > 0 && value <= 1);

/** @internal All metrics by name. */
export const metricTable = {
  top1: row({
    better: 'higher',
    unit: 'share',
    options: output,
    float: never,
    make: (o) => topk(1, o.output),
  }),
  top5: row({
    better: 'higher',
    unit: 'share',
    options: output,
    float: never,
    make: (o) => topk(5, o.output),
  }),
  /** `k`: how many classes. Default 1. */
  topk: row({
    better: 'higher',
    unit: 'share',
    options: { ...output, k: integer(1) },
    float: never,
    make: (o) => topk(o.k ?? 1, o.output),
  }),
  agreement: row({
    better: 'higher',
    unit: 'share',
    options: output,
    float: always,
    make: (o) => agreement(o.output),
  }),
  /** `mostDetections`: of a class in an image. Default 100. */
  coco_map: row({
    better: 'higher',
    unit: 'share',
    options: { ...boxes, mostDetections: integer(1) },
    float: never,
    make: (o) => cocoMap(boxesOf(o), o.mostDetections ?? 100),
  }),
  /** `overlap`: from which on a box is found. Default 0.5. `points`: 'all' (default) or '11'. */
  voc_map: row({
    better: 'higher',
    unit: 'share',
    options: { ...boxes, overlap: share, points: choice('all', '11') },
    float: never,
    make: (o) => vocMap(boxesOf(o), o.overlap ?? 0.5, o.points ?? 'all'),
  }),
  /** `axis` of the scores, default 1; `ignore`: a class of pixels that do not count, default 255. */
  miou: row({
    better: 'higher',
    unit: 'share',
    options: { ...output, axis: integer(0, 16), ignore: integer(-1) },
    float: never,
    make: (o) => meanIou(o.output, o.axis ?? 1, o.ignore ?? 255),
  }),
  /** `k`: how many neighbors. Default 1. */
  recall: row({
    better: 'higher',
    unit: 'share',
    options: { ...output, k: integer(1) },
    float: never,
    make: (o) => recall(o.k ?? 1, o.output),
  }),
  cosine: row({
    better: 'higher',
    unit: 'number',
    options: against,
    float: toTarget,
    make: (o) => meanCosine(o.against ?? 'float', o.output),
  }),
  wer: row({
    better: 'lower',
    unit: 'share',
    options: texts,
    float: never,
    make: (o) => errorRate('wer', textOf(o)),
  }),
  cer: row({
    better: 'lower',
    unit: 'share',
    options: texts,
    float: never,
    make: (o) => errorRate('cer', textOf(o)),
  }),
  /** `input`: the feed of tokens. Default 'input_ids'. */
  perplexity: row({
    better: 'lower',
    unit: 'number',
    options: { ...output, input: text },
    float: never,
    make: (o) => perplexity(o.output, o.input ?? 'input_ids'),
  }),
  /** `index` of the score in the output. */
  auc: row({
    better: 'higher',
    unit: 'share',
    options: { ...output, index: integer(0) },
    float: never,
    make: (o) => areaUnderRoc(o.index, o.output),
  }),
  mse: row({
    better: 'lower',
    unit: 'number',
    options: against,
    float: toTarget,
    make: (o) => meanSquaredError(o.against ?? 'float', o.output),
  }),
  snr: row({
    better: 'higher',
    unit: 'dB',
    options: against,
    float: toTarget,
    make: (o) => signalToNoise(o.against ?? 'float', o.output),
  }),
};

/** The names of the built-in metrics. */
export type MetricName = keyof typeof metricTable;

type OptionsOf<K extends MetricName> =
  (typeof metricTable)[K] extends Row<infer S> ? ConfigOf<S> : never;

/** A built-in metric with options. */
export type NamedMetric = { [K in MetricName]: { name: K } & OptionsOf<K> }[MetricName];

/** A metric: the name of a built-in one, one with options, or one of the user's own. */
export type MetricSpec = MetricName | NamedMetric | OwnMetric;

/** @internal Throws INVALID_ARGUMENT, naming the option. */
export function metricOf(spec: MetricSpec, option = 'options.metric'): Metric {
  if (typeof spec === 'function') {
    throw invalidArgument(
      `${option} is a function, which does not tell which values are better`,
      option,
      "Give { measure, better: 'higher' } or { measure, better: 'lower' }.",
    );
  }
  if (typeof spec === 'string') return metricOf({ name: spec } as NamedMetric, option);
  checkKind(spec, 'object', option);
  if ('measure' in spec) return ownMetric(spec, option);
  const { name, ...options } = spec;
  if (typeof name !== 'string' || !Object.hasOwn(metricTable, name)) {
    const known = Object.keys(metricTable);
    throw invalidArgument(
      `there is no metric ${show(name)}`,
      option,
      typeof name === 'string' ? suggest(name, known) : `Known are: ${known.join(', ')}.`,
    );
  }
  const { better, unit, options: schema, float, make } = metricTable[name] as Row<Schema>;
  checkSchema(options, schema, option);
  make(options); // finds out whether something is missing
  const label =
    'k' in options && options.k !== undefined
      ? `${name === 'topk' ? 'top' : name + '@'}${String(options.k)}`
      : name;
  return { name: label, better, unit, needsFloat: float(options), meter: () => make(options) };
}

// Everything about one operator, and the bits that the user gives it.

import type { AttributeValue, NodeDetails, TensorRecord, ValueDetails } from 'requant';
import { formatBytes, formatDb, formatMs, formatNumber } from 'requant/report';
import { Start } from '../choose/choose.js';
import { recipeOf } from '../choose/recipes.js';
import { Icon } from '../icon.js';
import { Values } from './histogram.js';
import { type Width, recipe, selected, setWidth, stale, widths } from '../state/store.js';
import { type AllMeasures, type Measures, constantBytes, isLayer } from './measures.js';

function attributeText(value: AttributeValue): string {
  if (value === null) return 'a graph';
  if (Array.isArray(value)) return value.join(', ');
  if (typeof value === 'object') {
    const { type, dims } = value as { type: string; dims: number[] };
    return `${type} [${dims.join(', ')}]`;
  }
  return typeof value === 'number' && !Number.isInteger(value)
    ? formatNumber(value)
    : String(value);
}

function valueText({ type, dims }: ValueDetails): string {
  const shape = dims ? `[${dims.map((dim) => dim ?? '?').join(', ')}]` : '';
  return type === 'undefined' ? 'unknown until it runs' : `${type} ${shape}`;
}

function Pairs(props: {
  title: string;
  entries: readonly (readonly [string, string])[];
  stacked?: boolean;
}) {
  const { title, entries, stacked } = props;
  if (entries.length === 0) return null;
  return (
    <section class="stack">
      <h3>{title}</h3>
      <dl class={stacked ? 'pairs stacked' : 'pairs'}>
        {entries.map(([name, text]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function gridText(slot: TensorRecord): string {
  const { bits, scale, offset, quantMin, quantMax, state } = slot;
  if (!bits || !scale) return state === 'FP32' ? 'float' : state.toLowerCase().replaceAll('_', ' ');
  const zero = typeof offset === 'number' ? offset : offset?.[0];
  const steps =
    scale.length === 1
      ? `step ${formatNumber(scale[0]!)}, zero ${zero ?? 0}`
      : `${scale.length} steps, ${formatNumber(Math.min(...scale))} to ${formatNumber(Math.max(...scale))}`;
  return `${bits} bits, ${steps}, codes ${quantMin} to ${quantMax}`;
}

function gridsOf({ record }: Measures): [string, string][] {
  if (!record) return [];
  const entries = (slots: readonly (TensorRecord | null)[], kind: string) =>
    slots.flatMap((slot, index): [string, string][] =>
      slot ? [[`${kind} ${index}`, gridText(slot)]] : [],
    );
  return [...entries(record.inputs, 'input'), ...entries(record.outputs, 'output')];
}

function measuredOf(node: NodeDetails, measures: Measures): [string, string][] {
  const { layer, ms, floatMs, kernel, record } = measures;
  const bytes = constantBytes(node);
  const list: [string, string | undefined][] = [
    ['weights', bytes > 0 ? formatBytes(bytes) : undefined],
    ['error', layer && `${formatDb(layer.snr)}, alone ${formatDb(layer.aloneSnr)}`],
    ['largest error', layer && `${formatNumber(layer.maxAbs)} of ${formatNumber(layer.range)}`],
    ['time', ms === undefined ? undefined : formatMs(ms)],
    ['time in float', floatMs === undefined ? undefined : formatMs(floatMs)],
    ['kernel', kernel],
    ['computed in', record?.computedBy],
    ['stays float', record?.reason],
  ];
  return list.filter((entry): entry is [string, string] => Boolean(entry[1]));
}

const choices: readonly { width: Width | undefined; name: string }[] = [
  { width: undefined, name: 'Recipe' },
  { width: 8, name: '8' },
  { width: 4, name: '4' },
  { width: 2, name: '2' },
  { width: 32, name: 'Float' },
];

function Widths({ name }: { name: string }) {
  const own = widths.value[name];
  const chosen = recipeOf(recipe.value);
  return (
    <section class="stack">
      <fieldset class="widths">
        <legend class="hidden-text">Bits of the weights of this layer</legend>
        {choices.map(({ width, name: text }) => (
          <label class="width" key={text}>
            <input
              class="hidden-text"
              type="radio"
              name="width"
              aria-label={
                width === undefined
                  ? 'As the recipe'
                  : width === 32
                    ? 'Stays in float'
                    : `${text} bits`
              }
              checked={own === width}
              onChange={() => setWidth(name, width)}
            />
            {text}
          </label>
        ))}
      </fieldset>
      <p class="small muted">
        {chosen.weights
          ? `The recipe “${chosen.name}” has the same bits for all layers.`
          : 'Bits of this layer’s weights. “Recipe” leaves them to the recipe.'}
      </p>
      {stale.value && (
        <div class="buttons">
          <Start />
        </div>
      )}
    </section>
  );
}

export function NodePanel({ node, measures }: { node: NodeDetails; measures: AllMeasures }) {
  const { name, op, domain, attributes, inputs, inputValues, outputs, outputValues } = node;
  const own = measures.get(name);
  const values = (
    list: readonly (ValueDetails | null)[],
    names: readonly string[],
  ): [string, string][] =>
    list.flatMap((value, index): [string, string][] =>
      value ? [[names[index]!, `${value.constant ? 'constant ' : ''}${valueText(value)}`]] : [],
    );
  return (
    <aside class="node-panel" role="region" aria-label="Operator" tabIndex={0}>
      <div class="node-head">
        <div>
          <h2 id="node-title" tabIndex={-1}>
            {op}
          </h2>
          <p class="small muted">
            {domain ? `${domain} · ` : ''}
            {name}
          </p>
        </div>
        <button
          type="button"
          class="round"
          aria-label="Close the details"
          onClick={() => {
            selected.value = undefined;
            document.querySelector<HTMLElement>('.graph-canvas')?.focus();
          }}
        >
          <Icon name="close" />
        </button>
      </div>
      {isLayer(node) && <Widths name={name} />}
      <Pairs title="Measured" entries={measuredOf(node, own)} />
      {outputs[0] && (
        <Values
          value={outputs[0]}
          slot={own.record?.outputs[0]}
          activation={own.record?.activation}
        />
      )}
      <Pairs title="Grids" entries={gridsOf(own)} stacked />
      <Pairs
        title="Attributes"
        entries={Object.entries(attributes).map(([key, value]) => [key, attributeText(value)])}
      />
      <Pairs title="Reads" entries={values(inputValues, inputs)} stacked />
      <Pairs title="Writes" entries={values(outputValues, outputs)} stacked />
    </aside>
  );
}

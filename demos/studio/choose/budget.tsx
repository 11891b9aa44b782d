// Chooses settings by a budget of bytes, milliseconds or accuracy, among configurations that were measured.

import type { SearchAttempt, SearchReport } from 'requant';
import {
  chartStyle,
  formatBytes,
  formatDb,
  formatMs,
  formatShare,
  searchChart,
} from 'requant/report';
import { useState } from 'preact/hooks';
import { announcement, job, preparation, recipe, samples } from '../state/store.js';
import { explore, explored } from './explore.js';
import { ownRecipe, recipeFrom } from './recipes.js';

type Axis = 'bytes' | 'ms' | 'lost';

const axisNames: Readonly<Record<Axis, string>> = {
  bytes: 'Bytes of the file',
  ms: 'Milliseconds on this device',
  lost: 'Accuracy lost',
};

/** How much worse than the float network, in the unit of the metric; what cannot be measured has lost all. */
function lostOf({ value }: SearchAttempt, { float, metric }: SearchReport): number {
  if (metric.unit === 'dB') return -value;
  return metric.better === 'higher' ? float.value - value : value - float.value;
}

const possible = ({ attempts }: SearchReport) =>
  attempts.filter(({ error, value }) => error === undefined && Number.isFinite(value));

const costOf = (attempt: SearchAttempt, axis: Axis, report: SearchReport): number =>
  axis === 'lost' ? lostOf(attempt, report) : attempt[axis];

/** The best attempt within the budget: of the least loss, or, where the loss is limited, of the fewest bytes. */
function bestWithin(report: SearchReport, axis: Axis, most: number): SearchAttempt | undefined {
  const within = possible(report).filter((one) => costOf(one, axis, report) <= most);
  const rank = (one: SearchAttempt) => (axis === 'lost' ? one.bytes : lostOf(one, report));
  return within.sort((a, b) => rank(a) - rank(b) || a.bytes - b.bytes)[0];
}

function textOf(cost: number, axis: Axis, { metric }: SearchReport): string {
  if (axis === 'bytes') return formatBytes(cost);
  if (axis === 'ms') return formatMs(cost);
  if (metric.unit === 'dB') return `no less than ${formatDb(-cost)}`;
  if (metric.unit !== 'share') return cost.toPrecision(3);
  const points = (100 * cost).toFixed(1);
  return `${points} ${points === '1.0' ? 'point' : 'points'}`;
}

const valueText = (value: number, { metric }: SearchReport): string =>
  metric.unit === 'share'
    ? formatShare(value)
    : metric.unit === 'dB'
      ? formatDb(value)
      : String(value);

const metricNames: Readonly<Record<string, string>> = {
  top1: 'right answers',
  agreement: 'the float network’s answers',
  snr: 'signal above error',
};

function wordsOf({ format, recovery, raised }: SearchAttempt): string {
  const [, weights, activations] = /^W(\d+)A(\d+)$/.exec(format)!;
  const count = raised?.operators.length ?? 0;
  const others = raised?.to === 'float' ? 'in float' : raised ? `of ${raised.to}` : '';
  return [
    `weights of ${weights} bits, activations of ${activations}`,
    ...(recovery === 'default' ? [] : ['channels made alike']),
    ...(count > 0 ? [`${count} ${count === 1 ? 'operator' : 'operators'} ${others}`] : []),
  ].join(', ');
}

function Slider({ report }: { report: SearchReport }) {
  const [axis, setAxis] = useState<Axis>('bytes');
  const [place, setPlace] = useState<number | undefined>(undefined);
  const costs = [...new Set(possible(report).map((one) => costOf(one, axis, report)))];
  costs.sort((a, b) => a - b);
  const at = Math.min(place ?? costs.length - 1, costs.length - 1);
  const most = costs[at]!;
  const chosen = bestWithin(report, axis, most);
  const values = new Set(possible(report).map(({ value }) => value));
  const chart =
    values.size > 1 && chosen
      ? searchChart(
          { ...report, best: report.attempts.indexOf(chosen) },
          axis === 'ms' ? 'ms' : 'bytes',
        )
      : '';
  const take = async () => {
    if (!chosen) return;
    const { configOfAttempt } = await import('requant');
    ownRecipe.value = recipeFrom(configOfAttempt(chosen), `Within ${textOf(most, axis, report)}`);
    recipe.value = 'own';
    announcement.value = `Settings: ${wordsOf(chosen)}.`;
  };
  return (
    <div class="stack">
      <div class="fields">
        <label class="field">
          <span>Limit</span>
          <select
            value={axis}
            onChange={({ currentTarget }) => {
              setAxis(currentTarget.value as Axis);
              setPlace(undefined);
            }}
          >
            {(Object.keys(axisNames) as Axis[]).map((one) => (
              <option key={one} value={one}>
                {axisNames[one]}
              </option>
            ))}
          </select>
        </label>
        <label class="field wide">
          <span>At most {textOf(most, axis, report)}</span>
          <input
            type="range"
            min="0"
            max={costs.length - 1}
            step="1"
            value={at}
            aria-valuetext={textOf(most, axis, report)}
            onInput={({ currentTarget }) => setPlace(Number(currentTarget.value))}
          />
        </label>
      </div>
      {chosen && (
        <div class="row-between" role="status">
          <p>
            <strong>{wordsOf(chosen)}</strong> <br />
            <span class="muted">
              {formatBytes(chosen.bytes)}, {formatMs(chosen.ms)}, {valueText(chosen.value, report)}{' '}
              {metricNames[report.metric.name] ?? report.metric.name}
              {report.metric.name === 'top1' && ` (float ${valueText(report.float.value, report)})`}
            </span>
          </p>
          <button type="button" class="button" onClick={() => void take()}>
            Take this one
          </button>
        </div>
      )}
      <style>{chartStyle}</style>
      {chart && <div class="frontier" dangerouslySetInnerHTML={{ __html: chart }} />}
    </div>
  );
}

export function Budget() {
  const given = samples.value;
  if (!given) return null;
  const now = explored.value;
  const fits = now?.samples === given && now.preparation === preparation.value;
  const busy = job.value !== undefined;
  return (
    <section class="card" aria-labelledby="budget-title">
      <h2 id="budget-title">Or choose by a budget</h2>
      <p class="hint">
        The studio quantizes the network in up to twelve ways between 4 and 16 bits, and measures
        each on your samples and this device. Then a slider shows the best one within a limit.
      </p>
      {fits && <Slider report={now.report} />}
      <div class="buttons">
        <button
          type="button"
          class="button"
          aria-disabled={busy}
          onClick={() => !busy && void explore()}
        >
          {fits ? 'Measure again' : 'Measure the choices'}
        </button>
      </div>
    </section>
  );
}

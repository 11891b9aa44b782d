// The room of the comparison.

import { formatBytes, formatMs, formatShare, metricRows } from 'requant/report';
import { Start } from '../choose/choose.js';
import { recipeOf } from '../choose/recipes.js';
import { quantizeNow } from '../engine/run.js';
import { Icon } from '../icon.js';
import { NothingYet } from '../nothing_yet.js';
import { type Result, go, job, result, stale } from '../state/store.js';
import { Answers } from './answers.js';
import { Layers } from './layers.js';
import { Speeds } from './speeds.js';

/** A factor on the line of its sign. */
const times = (factor: number) => `${factor.toFixed(factor < 10 ? 1 : 0)}\u00a0×`;

/** A ratio of speeds in words. */
function speedWords({ float, quantized }: NonNullable<Result['speed']>): string {
  const factor = float.total / quantized.total;
  if (factor > 1.05) return `runs ${times(factor)} as fast`;
  if (factor < 0.95) return `takes ${times(1 / factor)} as long`;
  return 'takes as long';
}

/** The task's measure in words. */
function likeWords({ task, likeness }: Result): string {
  const share = formatShare(likeness!);
  if (task === 'boxes') return `${share} of its boxes are those of the float network`;
  if (task === 'masks') return `Its masks cover ${share} of what both cover`;
  return `${share} of its nearest neighbours are those of the float network`;
}

const likeNames: Partial<Record<Result['task'], string>> = {
  boxes: 'the same boxes',
  masks: 'intersection over union of masks',
  neighbours: 'the same neighbours',
};

function Verdict({ now }: { now: Result }) {
  const { report, floatBytes, bytes, speed, calibrated, separate } = now;
  const smaller = floatBytes / bytes;
  const agreement = report?.top1.agreement ?? null;
  const snr = report?.outputs[0]?.snr;
  const classes = now.task === 'classes';
  const good =
    !report ||
    (now.likeness !== undefined
      ? now.likeness >= 0.9
      : classes
        ? (agreement ?? 1) >= 0.95
        : snr === null || (snr ?? 0) >= 20);
  const size = smaller > 1.02 ? `is ${times(smaller)} smaller` : 'is as large as before';
  const rest = `${size}${speed ? ` and ${speedWords(speed)}` : ''}`;
  const agreeing =
    agreement === 1
      ? `all ${report!.samples} samples`
      : `${formatShare(agreement)} of ${report?.samples} samples`;
  const samplesText = separate
    ? `Compared on ${report?.samples} samples that did not choose the scales; ${calibrated} others did.`
    : `Compared on the same ${report?.samples} samples that chose the scales: more samples are a better proof.`;
  return (
    <section class={good ? 'verdict' : 'verdict warm'} aria-label="Verdict">
      <p>
        {!report && `The network ${rest}.`}
        {report && classes && `It gives the same answer on ${agreeing}, ${rest}.`}
        {report && now.likeness !== undefined && `${likeWords(now)}; it ${rest}.`}
        {report &&
          !classes &&
          now.likeness === undefined &&
          (snr === null
            ? `Its outputs are exactly the same; it ${rest}.`
            : `Its outputs keep ${snr?.toFixed(1)} dB of signal above the error; it ${rest}.`)}
      </p>
      <p class="muted">
        {report
          ? samplesText
          : 'Without samples there is no proof: bring some to see how far the answers move.'}
      </p>
    </section>
  );
}

/** Says that only some layers were made again, and offers to make everything again. */
function Partly({ now }: { now: Result }) {
  if (now.made === 'all') return null;
  const busy = job.value !== undefined;
  return (
    <div class="needs row-between">
      <p class="muted">
        {now.made === 'layers'
          ? 'Only the layers that you changed were made again, with the ranges of the first time. Their weights are rounded to the nearest; with everything made again, rounding makes up for errors.'
          : 'Ranges and decisions are those of the first time; other layers have the same integers as before.'}
      </p>
      <button
        type="button"
        class="button small"
        aria-disabled={busy}
        onClick={() => !busy && void quantizeNow(true)}
      >
        Quantize everything again
      </button>
    </div>
  );
}

function Figures({ now }: { now: Result }) {
  const { report, floatBytes, bytes, speed, seconds } = now;
  const list: [string, string][] = [];
  if (report?.labelled) {
    list.push([
      formatShare(report.top1.candidate),
      `right, float ${formatShare(report.top1.float)}`,
    ]);
  }
  if (report && now.task === 'classes') {
    list.push([formatShare(report.top1.agreement), 'the same answer']);
  }
  if (now.likeness !== undefined) list.push([formatShare(now.likeness), likeNames[now.task]!]);
  const snr = report?.outputs[0]?.snr;
  if (report) list.push([snr === null ? 'exact' : `${snr!.toFixed(1)} dB`, 'signal above error']);
  list.push([formatBytes(bytes), `instead of ${formatBytes(floatBytes)}`]);
  if (speed) {
    list.push([formatMs(speed.quantized.total), `a run, float ${formatMs(speed.float.total)}`]);
  }
  list.push([`${seconds.toFixed(seconds < 10 ? 1 : 0)} s`, 'to quantize']);
  return (
    <dl class="figures">
      {list.map(([value, what]) => (
        <div class="figure" key={what}>
          <dt>{what}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Numbers({ report }: { report: NonNullable<Result['report']> }) {
  return (
    <section class="card" aria-labelledby="numbers-title">
      <h2 id="numbers-title">Size, speed and memory</h2>
      <div class="scroll" role="region" aria-label="Table of both networks" tabIndex={0}>
        <table>
          <caption class="hidden-text">Accuracy, size, time and memory of both networks</caption>
          <thead>
            <tr>
              {['Measure', 'Float', 'Quantized', 'Both'].map((title) => (
                <th scope="col" key={title}>
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {metricRows(report).map(({ name, float, candidate, both }) => (
              <tr key={name}>
                <th scope="row">{name.trim()}</th>
                <td>{float}</td>
                <td>{candidate}</td>
                <td>{both}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function Believe() {
  const now = result.value;
  if (!now) {
    return (
      <NothingYet id="believe-title" title="Nothing to compare yet" lead="Take a recipe first." />
    );
  }
  return (
    <div class="page">
      <div class="page-head">
        <h1 id="believe-title" tabIndex={-1}>
          {recipeOf(now.recipe).name}
        </h1>
        <div class="buttons">
          {stale.value && <Start />}
          <button
            type="button"
            class={stale.value ? 'button' : 'button primary'}
            onClick={() => go('take')}
          >
            <Icon name="take" />
            Take it
          </button>
        </div>
      </div>
      {stale.value && (
        <p class="needs muted">
          This is the result of other settings than the present ones. Quantize to see theirs.
        </p>
      )}
      <Partly now={now} />
      <Verdict now={now} />
      <Figures now={now} />
      {now.answers.length > 0 && <Answers now={now} />}
      {now.report && now.report.layers.length > 0 && <Layers report={now.report} />}
      {now.report && <Numbers report={now.report} />}
      <Speeds now={now} />
      {now.warnings.length > 0 && (
        <section class="card" aria-labelledby="warnings-title">
          <h2 id="warnings-title">What the quantizer wants to say</h2>
          <ul class="warnings">
            {now.warnings.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

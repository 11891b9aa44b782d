// Shows the answers of both networks for the user's samples, those that differ first.

import { formatDb } from 'requant/report';
import { useEffect, useState } from 'preact/hooks';
import { Pixels } from '../bring/pixels.js';
import type { Prepared } from '../bring/prepare.js';
import { type Answer, type Result, type Score, preparation, samples } from '../state/store.js';

const FIRST = 12;

function nameOf(index: number): string {
  return samples.value?.classes?.[index] ?? `class ${index}`;
}

/** Classes of folders name the network's classes only where the networks have so many. */
function Scores({
  title,
  scores,
  kind,
}: {
  title: string;
  scores: readonly Score[];
  kind: string;
}) {
  return (
    <div>
      <p class="scores-title">{title}</p>
      <ol class={`scores ${kind}`} role="list">
        {scores.map(({ index, score }) => (
          <li key={index} style={{ '--share': `${(100 * score).toFixed(1)}%` }}>
            <span>{nameOf(index)}</span>
            <span>{(100 * score).toFixed(1)} %</span>
          </li>
        ))}
      </ol>
    </div>
  );
}

function Card({ answer }: { answer: Answer }) {
  const given = samples.value;
  const settings = preparation.value;
  const { sample, float, quantized, differs, snr, label } = answer;
  const [prepared, setPrepared] = useState<Prepared | undefined>(undefined);
  useEffect(() => {
    if (!given?.prepared || !settings) return;
    given.prepared(sample, settings).then(setPrepared, () => {});
  }, [given, settings, sample]);
  if (!given) return null;
  const name = given.nameOf(sample);
  return (
    <li>
      <article class={differs ? 'answer differs' : 'answer'}>
        {prepared && <Pixels pixels={prepared.original} label={name} />}
        <p class="answer-name">
          <strong>{label === undefined ? name : nameOf(label)}</strong>
          {differs ? (
            <span class="tag warm">differs</span>
          ) : (
            <span class="muted">{formatDb(snr)}</span>
          )}
        </p>
        {float.length > 0 && <Scores title="Float" scores={float} kind="of-float" />}
        {quantized.length > 0 && <Scores title="Quantized" scores={quantized} kind="" />}
      </article>
    </li>
  );
}

export function Answers({ now }: { now: Result }) {
  const [shown, setShown] = useState(FIRST);
  useEffect(() => setShown(FIRST), [now]);
  const { answers } = now;
  const classes = answers.some(({ float }) => float.length > 0);
  const differing = answers.filter(({ differs }) => differs).length;
  const what = classes
    ? differing === 0
      ? 'Both networks agree on all of these; those whose scores moved most come first.'
      : `The ${differing} on which they disagree come first.`
    : 'Those whose outputs moved most come first. The number is the signal above the error.';
  return (
    <section class="card" aria-labelledby="answers-title">
      <h2 id="answers-title">Both networks on your samples</h2>
      <p class="hint">{what}</p>
      <ul class="answers">
        {answers.slice(0, shown).map((answer) => (
          <Card key={answer.sample} answer={answer} />
        ))}
      </ul>
      {shown < answers.length && (
        <div class="buttons">
          <button type="button" class="button" onClick={() => setShown(shown + FIRST)}>
            Show {Math.min(FIRST, answers.length - shown)} more
          </button>
        </div>
      )}
    </section>
  );
}

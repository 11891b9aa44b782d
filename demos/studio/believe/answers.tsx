// Shows the answers of both networks for the user's samples, those that differ first.

import { formatDb } from 'requant/report';
import { useEffect, useState } from 'preact/hooks';
import { Pixels } from '../bring/pixels.js';
import type { Prepared } from '../bring/prepare.js';
import { answerAgain } from '../engine/run.js';
import { type Task, taskNames, tasks } from '../engine/task.js';
import {
  type Answer,
  type Result,
  type Score,
  job,
  ownTask,
  preparation,
  samples,
} from '../state/store.js';
import { Overlay } from './overlay.js';

const FIRST = 12;

function nameOf(index: number): string {
  return samples.value?.classes?.[index] ?? `class ${index}`;
}

/** The sample's picture, once it is prepared. */
function usePrepared(sample: number): Prepared | undefined {
  const given = samples.value;
  const settings = preparation.value;
  const [prepared, setPrepared] = useState<Prepared | undefined>(undefined);
  useEffect(() => {
    if (!given?.prepared || !settings) return;
    let current = true;
    given.prepared(sample, settings).then(
      (made) => current && setPrepared(made),
      () => {},
    );
    return () => {
      current = false;
    };
  }, [given, settings, sample]);
  return prepared;
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

function Neighbour({ sample }: { sample: number }) {
  const prepared = usePrepared(sample);
  const name = samples.value!.nameOf(sample);
  return (
    <li>
      {prepared && <Pixels pixels={prepared.original} label={name} />}
      <span class="small">{name}</span>
    </li>
  );
}

function Neighbours({ title, near }: { title: string; near: readonly number[] }) {
  return (
    <div>
      <p class="scores-title">{title}: nearest of the others</p>
      <ol class="neighbours" role="list">
        {near.map((sample) => (
          <Neighbour key={sample} sample={sample} />
        ))}
      </ol>
    </div>
  );
}

/** How much the answer moved. */
function Moved({ answer, task }: { answer: Answer; task: Task }) {
  const { differs, likeness, snr } = answer;
  const share = likeness === undefined ? '' : `${Math.round(100 * likeness)} % alike`;
  if (differs) {
    const text = task === 'classes' || likeness === undefined ? 'differs' : `differs, ${share}`;
    return <span class="tag warm">{text}</span>;
  }
  return <span class="muted">{share || formatDb(snr)}</span>;
}

function Card({ answer, task }: { answer: Answer; task: Task }) {
  const given = samples.value;
  const { sample, float, quantized, differs, label, boxes, masks, near } = answer;
  const prepared = usePrepared(sample);
  if (!given) return null;
  const name = given.nameOf(sample);
  const over = boxes ?? masks;
  return (
    <li>
      <article class={differs ? 'answer differs' : 'answer'}>
        {prepared && !over && <Pixels pixels={prepared.original} label={name} />}
        <p class="answer-name">
          <strong>{label === undefined ? name : nameOf(label)}</strong>
          <Moved answer={answer} task={task} />
        </p>
        {prepared &&
          over &&
          ['Float', 'Quantized'].map((title, at) => (
            <Overlay
              key={title}
              title={title}
              name={name}
              picture={prepared.shown}
              boxes={boxes?.[at]}
              mask={masks?.[at]}
            />
          ))}
        {near && (
          <>
            <Neighbours title="Float" near={near[0]} />
            <Neighbours title="Quantized" near={near[1]} />
          </>
        )}
        {float.length > 0 && <Scores title="Float" scores={float} kind="of-float" />}
        {quantized.length > 0 && <Scores title="Quantized" scores={quantized} kind="" />}
      </article>
    </li>
  );
}

const hints: Readonly<Record<Task, string>> = {
  classes: 'Both networks agree on all of these; those whose scores moved most come first.',
  boxes:
    'Pairs of boxes of one class that overlap by half are alike. Pictures where boxes moved most come first.',
  masks:
    'The likeness is the intersection of both masks over their union. Pictures where it is least come first.',
  neighbours: 'The output is compared by its cosine. Samples whose nearest one changed come first.',
  numbers: 'Those whose outputs moved most come first. The number is the signal above the error.',
};

/** Lets the user say what the network does. */
function TaskChoice({ task }: { task: Task }) {
  const busy = job.value !== undefined;
  return (
    <label class="field">
      <span>Show answers as</span>
      <select
        value={task}
        aria-disabled={busy}
        onChange={({ currentTarget }) => {
          if (busy) {
            currentTarget.value = task;
            return;
          }
          ownTask.value = currentTarget.value as Task;
          void answerAgain();
        }}
      >
        {tasks.map((one) => (
          <option key={one} value={one}>
            {taskNames[one]}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Answers({ now }: { now: Result }) {
  const [shown, setShown] = useState(FIRST);
  const { answers, task } = now;
  useEffect(() => setShown(FIRST), [answers]);
  const differing = answers.filter(({ differs }) => differs).length;
  const what =
    differing === 0
      ? hints[task]
      : differing === 1
        ? 'The one on which they disagree comes first.'
        : `The ${differing} on which they disagree come first.`;
  return (
    <section class="card" aria-labelledby="answers-title">
      <div class="row-between">
        <h2 id="answers-title">Both networks on your samples</h2>
        <TaskChoice task={task} />
      </div>
      <p class="hint">{what}</p>
      <ul class="answers">
        {answers.slice(0, shown).map((answer) => (
          <Card key={answer.sample} answer={answer} task={task} />
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

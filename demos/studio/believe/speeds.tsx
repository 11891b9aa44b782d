// Times of both networks on this device, in this engine and, if the user asks for them, in others.

import { formatMs } from 'requant/report';
import { measureOther, titleOf } from '../engine/others.js';
import { emptyFeeds, mayUseThreads, measureWith } from '../engine/speed.js';
import {
  type Other,
  type OtherName,
  type Result,
  job,
  model,
  preparation,
  samples,
} from '../state/store.js';

const threadsText = (threads: number) => (threads === 1 ? 'one thread' : `${threads} threads`);

function otherText({ ms, error }: Other['float']): string {
  return ms === undefined ? `not possible: ${error ?? ''}` : formatMs(ms);
}

export function Speeds({ now }: { now: Result }) {
  const { speed, others = {} } = now;
  if (!speed) return null;
  const busy = job.value !== undefined;
  const threads = Math.max(speed.float.threads, speed.quantized.threads);
  const feedsOf = async () => {
    const given = samples.value;
    return given ? given.feeds(0, preparation.value) : emptyFeeds(model.value!.info);
  };
  const ours = async (count: 1 | 'auto') => {
    if (!busy) await measureWith(count, await feedsOf());
  };
  const theirs = async (name: OtherName, count: 1 | 'auto') => {
    if (!busy) await measureOther(name, count, await feedsOf());
  };
  const button = (text: string, action: () => Promise<void>) => (
    <button type="button" class="button" aria-disabled={busy} onClick={() => void action()}>
      {text}
    </button>
  );
  return (
    <section class="card" aria-labelledby="threads-title">
      <h2 id="threads-title">Time on this device</h2>
      <div class="scroll" role="region" aria-label="Table of times" tabIndex={0}>
        <table>
          <caption class="hidden-text">Milliseconds of a run, by engine</caption>
          <thead>
            <tr>
              <th scope="col">Engine</th>
              <th scope="col">Float</th>
              <th scope="col">Quantized</th>
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">Requant, {threadsText(threads)}</th>
              <td>{formatMs(speed.float.total)}</td>
              <td>{formatMs(speed.quantized.total)}</td>
            </tr>
            {(Object.entries(others) as [OtherName, Other][]).map(([name, other]) => (
              <tr key={name}>
                <th scope="row">
                  {titleOf(name)}, {threadsText(other.threads)}
                </th>
                <td>{otherText(other.float)}</td>
                <td>{otherText(other.quantized)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint">
        Requant: the sum of the operators’ times, both networks in turns. The others: the median of
        up to 25 runs of the files that you can take. ONNX Runtime Web is 13 MB and runs .onnx
        files, LiteRT.js is 10 MB and runs .tflite files; each loads when you ask for it.
      </p>
      <div class="buttons">
        {mayUseThreads() && button('Measure with threads', () => ours('auto'))}
        {mayUseThreads() && button('Measure on one thread', () => ours(1))}
        {button('Measure ONNX Runtime Web', () => theirs('ort', 1))}
        {mayUseThreads() && button('ONNX Runtime Web with threads', () => theirs('ort', 'auto'))}
        {button('Measure LiteRT.js', () => theirs('litert', 1))}
        {mayUseThreads() && button('LiteRT.js with threads', () => theirs('litert', 'auto'))}
      </div>
      {!mayUseThreads() && (
        <p class="muted small">
          Threads need a processor with several cores and a page that is cross-origin isolated.
          After the first visit a reload makes this page isolated.
        </p>
      )}
    </section>
  );
}

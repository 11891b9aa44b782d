// A sound beside what the network hears of it, and how it becomes numbers.

import { useEffect, useRef, useState } from 'preact/hooks';
import { preparation, result, samples } from '../state/store.js';
import { colourOf, theme } from '../state/theme.js';
import { describe } from '../watch/problems.js';
import type { SoundSettings, SoundSource } from './audio.js';
import { Pager } from './pager.js';
import type { Samples } from './samples.js';

const [WIDTH, HEIGHT] = [360, 90];
const RATES = [8000, 16_000, 22_050, 32_000, 44_100, 48_000];

/** The loudness over time: the least and the greatest number of each column. */
function Wave({ data, label }: { data: Float32Array; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = theme.value;
  useEffect(() => {
    const context = canvas.current?.getContext('2d');
    if (!context) return;
    context.clearRect(0, 0, WIDTH, HEIGHT);
    context.fillStyle = colourOf('--accent');
    for (let x = 0; x < WIDTH; x++) {
      const from = Math.floor((x * data.length) / WIDTH);
      const part = data.subarray(
        from,
        Math.max(from + 1, Math.floor(((x + 1) * data.length) / WIDTH)),
      );
      const [low, high] = [
        Math.min(0, ...part.slice(0, 4096)),
        Math.max(0, ...part.slice(0, 4096)),
      ];
      const top = ((1 - high) * HEIGHT) / 2;
      context.fillRect(x, top, 1, Math.max(1, ((high - low) * HEIGHT) / 2));
    }
  }, [data, colours]);
  return (
    <canvas ref={canvas} class="wave" width={WIDTH} height={HEIGHT} role="img" aria-label={label} />
  );
}

export function SoundPreview({ given, sound }: { given: Samples; sound: SoundSource }) {
  const [index, setIndex] = useState(0);
  const [failed, setFailed] = useState('');
  const at = Math.min(index, given.count - 1);
  const { name, original, seen, seconds } = sound.heard(at);
  const change = (next: Partial<SoundSettings>) => {
    sound.with({ ...sound.settings, ...next }).then(
      (made) => {
        samples.value = made;
        preparation.value = undefined;
        result.value = undefined;
        setFailed('');
      },
      (error: unknown) => setFailed(describe(error).text),
    );
  };
  return (
    <div class="preview">
      <div class="pair">
        <figure>
          <Wave data={original} label={`${name}, the whole sound`} />
          <figcaption>The whole sound</figcaption>
        </figure>
        <figure>
          <Wave data={seen} label={`${given.nameOf(at)}, as the network hears it`} />
          <figcaption>As the network hears it, {seconds.toFixed(2)} s</figcaption>
        </figure>
      </div>
      {failed && <p class="bad">{failed}</p>}
      <Pager index={at} count={given.count} name={given.nameOf(at)} onChange={setIndex} />
      <div class="fields">
        <label class="field">
          <span>Samples a second</span>
          <select
            value={sound.settings.rate}
            onChange={({ currentTarget }) => change({ rate: Number(currentTarget.value) })}
          >
            {RATES.map((rate) => (
              <option key={rate} value={rate}>
                {rate.toLocaleString('en')}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          <span>Range</span>
          <select
            value={sound.settings.full}
            onChange={({ currentTarget }) => change({ full: Number(currentTarget.value) as 1 })}
          >
            <option value={1}>-1 to 1</option>
            <option value={32768}>-32768 to 32767</option>
          </select>
        </label>
      </div>
    </div>
  );
}

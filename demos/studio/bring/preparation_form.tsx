// How pictures become the input, to change.

import { type LoadedModel, preparation, result } from '../state/store.js';
import { type Preparation, possibleScalings, withScaling } from './preparation.js';

function change(next: Partial<Preparation>): void {
  preparation.value = { ...preparation.value!, ...next, reason: 'You chose this.' };
  result.value = undefined;
}

const numbersOf = (text: string) =>
  text
    .split(/[,;\s]+/)
    .filter(Boolean)
    .map(Number);

function NumbersField(props: {
  label: string;
  value: readonly number[];
  channels: number;
  onChange(numbers: number[]): void;
}) {
  const { label, value, channels, onChange } = props;
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text"
        inputMode="decimal"
        value={value.join(', ')}
        onChange={({ currentTarget }) => {
          const numbers = numbersOf(currentTarget.value);
          const fits = numbers.length === 1 || numbers.length === channels;
          if (fits && numbers.every(Number.isFinite)) onChange(numbers);
          else currentTarget.value = value.join(', ');
        }}
      />
    </label>
  );
}

function SizeFields({ settings }: { settings: Preparation }) {
  const field = (label: string, key: 'width' | 'height') => (
    <label class="field">
      <span>{label}</span>
      <input
        type="number"
        min="1"
        max="4096"
        value={settings[key]}
        onChange={({ currentTarget }) => {
          const side = Math.round(Number(currentTarget.value));
          if (side >= 1 && side <= 4096) change({ [key]: side });
          else currentTarget.value = String(settings[key]);
        }}
      />
    </label>
  );
  return (
    <>
      {field('Width', 'width')}
      {field('Height', 'height')}
    </>
  );
}

/** Whether the model leaves the size of pictures open. */
function hasOpenSize({ info }: LoadedModel, { input, layout }: Preparation): boolean {
  const dims = info.inputs.find(({ name }) => name === input)?.dims ?? [];
  const sides = layout === 'nchw' ? dims.slice(2) : dims.slice(1, 3);
  return sides.some((dim) => typeof dim !== 'number');
}

export function PreparationForm(props: { settings: Preparation; model: LoadedModel }) {
  const { settings, model } = props;
  const { scaling, fit, channels, mean, std, scale, bgr, reason } = settings;
  const bytes = settings.type === 'uint8';
  return (
    <details class="more">
      <summary>
        How pictures become numbers <span class="muted small">{reason}</span>
      </summary>
      <div class="fields">
        <label class="field">
          <span>Range</span>
          <select
            value={scaling}
            onChange={({ currentTarget }) => {
              change(withScaling(settings, currentTarget.value));
            }}
          >
            {possibleScalings(settings).map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
            {!bytes && <option value="own">Your own</option>}
          </select>
        </label>
        <label class="field">
          <span>Other proportions</span>
          <select
            value={fit}
            onChange={({ currentTarget }) => change({ fit: currentTarget.value as 'crop' })}
          >
            <option value="crop">Cut out the middle</option>
            <option value="stretch">Stretch</option>
          </select>
        </label>
        {channels === 3 && (
          <label class="field">
            <span>Order of colours</span>
            <select
              value={bgr ? 'bgr' : 'rgb'}
              onChange={({ currentTarget }) => change({ bgr: currentTarget.value === 'bgr' })}
            >
              <option value="rgb">Red, green, blue</option>
              <option value="bgr">Blue, green, red</option>
            </select>
          </label>
        )}
        {hasOpenSize(model, settings) && <SizeFields settings={settings} />}
        {scaling === 'own' && (
          <>
            <NumbersField
              label="Factor"
              value={[scale]}
              channels={1}
              onChange={([factor]) => change({ scale: factor! })}
            />
            <NumbersField
              label="Mean"
              value={mean}
              channels={channels}
              onChange={(numbers) => change({ mean: numbers })}
            />
            <NumbersField
              label="Deviation"
              value={std}
              channels={channels}
              onChange={(numbers) => !numbers.includes(0) && change({ std: numbers })}
            />
          </>
        )}
      </div>
    </details>
  );
}

// The samples, and how pictures become the input.

import { useEffect, useState } from 'preact/hooks';
import { type LoadedModel, preparation, result, samples } from '../state/store.js';
import { describe } from '../watch/problems.js';
import { Icon } from '../icon.js';
import { FileButton } from './bring.js';
import { Camera } from './camera.js';
import { Pager } from './pager.js';
import { Pixels } from './pixels.js';
import { PreparationForm } from './preparation_form.js';
import type { Preparation } from './preparation.js';
import type { Prepared } from './prepare.js';
import type { Samples } from './samples.js';
import { SoundPreview } from './sound_preview.js';
import { TextPreview } from './text_preview.js';

/** Whether a page may use a camera at all. */
const hasCamera = (): boolean => Boolean(globalThis.navigator?.mediaDevices?.getUserMedia);

function Empty({ model }: { model: LoadedModel }) {
  const pictures = preparation.value !== undefined;
  const [camera, setCamera] = useState(false);
  if (camera) return <Camera onEnd={() => setCamera(false)} />;
  return (
    <div class="empty">
      <p>
        {pictures
          ? 'Ten pictures of what the network usually sees are enough to begin; a hundred are better.'
          : `Arrays for ${model.info.inputs.map(({ name }) => name).join(', ')}, as NumPy saves them; or sounds, a table (.csv) or texts (.txt with tokenizer.json) where these fit.`}
      </p>
      <div class="buttons">
        {pictures && (
          <FileButton
            label="Choose pictures"
            icon="picture"
            accept="image/*,.npy,.npz,.zip"
            primary
          />
        )}
        {!pictures && <FileButton label="Choose files" icon="file" primary />}
        {pictures && hasCamera() && (
          <button type="button" class="button" onClick={() => setCamera(true)}>
            <Icon name="picture" />
            Use the camera
          </button>
        )}
        <FileButton label="Choose a folder" icon="folder" folder />
      </div>
      <p class="muted small">
        Or drop them anywhere. Sub-folders of pictures are classes. Without samples only weights can
        be quantized: the file becomes small, but nobody knows which numbers flow through the
        network, so it still computes in floats, and there is no proof on data of yours.
      </p>
    </div>
  );
}

function Preview(props: { given: Samples; settings: Preparation }) {
  const { given, settings } = props;
  const [index, setIndex] = useState(0);
  const [shown, setShown] = useState<Prepared | undefined>(undefined);
  const [failed, setFailed] = useState('');
  useEffect(() => {
    let current = true;
    given.prepared!(index, settings).then(
      (prepared) => {
        if (!current) return;
        setShown(prepared);
        setFailed('');
      },
      (error: unknown) => current && setFailed(describe(error).text),
    );
    return () => {
      current = false;
    };
  }, [given, settings, index]);
  const name = given.nameOf(index);
  const label = given.labels?.[index] ?? -1;
  const known = label >= 0 ? ` (${given.classes?.[label] ?? `class ${label}`})` : '';
  return (
    <div class="preview">
      <div class="pair">
        <figure>
          {shown && <Pixels pixels={shown.original} label={`${name}, as it is`} />}
          <figcaption>As it is</figcaption>
        </figure>
        <figure>
          {shown && <Pixels pixels={shown.shown} label={`${name}, as the network sees it`} />}
          <figcaption>
            As the network sees it, {settings.width} × {settings.height}
          </figcaption>
        </figure>
      </div>
      {failed && <p class="bad">{failed}</p>}
      <Pager index={index} count={given.count} name={`${name}${known}`} onChange={setIndex} />
    </div>
  );
}

export function SamplesCard({ model }: { model: LoadedModel }) {
  const given = samples.value;
  const settings = preparation.value;
  const remove = () => {
    samples.value = undefined;
    result.value = undefined;
  };
  return (
    <section class="card" aria-labelledby="samples-title">
      <h2 id="samples-title">Samples</h2>
      {!given && <Empty model={model} />}
      {given && (
        <>
          <p>
            <strong>{given.title}</strong>
            {given.labels && given.classes && (
              <span class="muted">
                {' '}
                · {given.classes.length} classes: {given.classes.slice(0, 6).join(', ')}
                {given.classes.length > 6 ? ' …' : ''}
              </span>
            )}
          </p>
          {given.sound && <SoundPreview given={given} sound={given.sound} />}
          {given.text && <TextPreview given={given} />}
          {given.prepared && settings && <Preview given={given} settings={settings} />}
          {given.prepared && settings && <PreparationForm settings={settings} model={model} />}
          <div class="buttons">
            <FileButton label="Other samples" icon="picture" />
            <button type="button" class="button" onClick={remove}>
              Use none
            </button>
          </div>
        </>
      )}
    </section>
  );
}

// The first room: bring a model and samples.

import { Icon } from '../icon.js';
import { go, job, model, problem } from '../state/store.js';
import { describe } from '../watch/problems.js';
import { chosenFiles } from './files.js';
import { type SampleId, sampleList } from './sample_list.js';
import { ModelCard } from './model_card.js';
import { SamplesCard } from './samples_card.js';
import { takeFiles } from './take_files.js';

/** A button that opens the system's dialog for files or folders. */
export function FileButton(props: {
  label: string;
  icon: 'file' | 'folder' | 'picture';
  folder?: boolean;
  accept?: string;
  primary?: boolean;
}) {
  const { label, icon, folder, accept, primary } = props;
  return (
    <label class={primary ? 'button primary' : 'button'}>
      <Icon name={icon} />
      {label}
      <input
        class="hidden-text"
        type="file"
        multiple
        {...(folder ? { webkitdirectory: true } : {})}
        {...(accept ? { accept } : {})}
        onChange={({ currentTarget }) => {
          const files = chosenFiles(currentTarget.files!);
          currentTarget.value = '';
          void takeFiles(() => files);
        }}
      />
    </label>
  );
}

const promises = [
  {
    icon: 'spark',
    title: 'Five minutes, no manual',
    text: 'Take a recipe. Ten pictures are enough to begin with.',
  },
  {
    icon: 'compare',
    title: 'Proven on your samples',
    text: 'Both networks answer side by side, what differs first.',
  },
  {
    icon: 'lock',
    title: 'Nothing leaves this device',
    text: 'The engine runs in this tab, without a server, even offline.',
  },
] as const;

function Welcome() {
  const busy = job.value !== undefined;
  const open = (id: SampleId) => {
    if (busy) return;
    import('./shipped.js').then(
      ({ openSample }) => openSample(id),
      (error: unknown) => (problem.value = describe(error)),
    );
  };
  return (
    <div class="welcome">
      <div class="hero">
        <h1 id="bring-title" tabIndex={-1}>
          Make a network smaller and faster. See what it costs.
        </h1>
        <p class="lead">
          Bring an ONNX or TFLite model and a few samples. The studio turns 32-bit floats into
          integers of 8 bits or fewer, and shows how far the answers move.
        </p>
        <div class="drop">
          <Icon name="model" />
          <p class="drop-title">Drop a model here</p>
          <p class="muted">
            An .onnx or .tflite file, alone or with its external data, pictures or arrays, or a
            whole folder
          </p>
          <div class="buttons">
            <FileButton label="Choose files" icon="file" primary />
            <FileButton label="Choose a folder" icon="folder" folder />
          </div>
        </div>
        <p class="or">No model at hand? Try one that</p>
        <div class="buttons">
          {sampleList.map(({ id, text }) => (
            <button
              key={id}
              type="button"
              class="button small"
              aria-label={`Try one that ${text}`}
              onClick={() => open(id)}
            >
              {text}
            </button>
          ))}
        </div>
      </div>
      <ul class="promises">
        {promises.map(({ icon, title, text }) => (
          <li key={title}>
            <Icon name={icon} />
            <div>
              <strong>{title}</strong>
              <p class="muted">{text}</p>
            </div>
          </li>
        ))}
      </ul>
    </div>
  );
}

export function Bring() {
  if (!model.value) return <Welcome />;
  return (
    <div class="page">
      <div class="page-head">
        <h1 id="bring-title" tabIndex={-1}>
          Model and samples
        </h1>
        <button type="button" class="button primary" onClick={() => go('choose')}>
          Choose a recipe
          <Icon name="next" />
        </button>
      </div>
      <div class="columns">
        <ModelCard model={model.value} />
        <SamplesCard model={model.value} />
      </div>
    </div>
  );
}

// The room of files, code and the link.

import { useState } from 'preact/hooks';
import { recipeOf } from '../choose/recipes.js';
import { hasFewBits } from '../engine/few_bits.js';
import { Icon } from '../icon.js';
import { NothingYet } from '../nothing_yet.js';
import { linkOf } from '../state/link.js';
import { announcement, model, result, stale } from '../state/store.js';
import {
  saveC,
  saveConfig,
  saveOnnx,
  savePlan,
  saveRecord,
  saveReport,
  saveTflite,
  stem,
} from './save.js';
import { snippetsOf } from './snippets.js';

interface Download {
  name: string;
  text: string;
  button: string;
  save: () => void;
  primary?: boolean;
}

function downloadsOf(): Download[] {
  const { record, report } = result.value!;
  if (!record) {
    return [
      {
        name: 'ONNX',
        text: 'Packed weights, which ONNX Runtime computes from (MatMulNBits), and Requant, too.',
        button: 'Save ONNX',
        save: () => saveOnnx('qdq'),
        primary: true,
      },
      planDownload,
      ...(report ? [reportDownload] : []),
    ];
  }
  const few = hasFewBits(record) ? ' Weights of few bits are packed (opset 21).' : '';
  return [
    {
      name: 'ONNX, QDQ',
      text: `Float operators between QuantizeLinear and DequantizeLinear: every engine reads it.${few}`,
      button: 'Save QDQ',
      save: () => saveOnnx('qdq'),
      primary: true,
    },
    {
      name: 'ONNX, QOperator',
      text: 'Integer operators, such as QLinearConv, as ONNX Runtime runs them.',
      button: 'Save QOperator',
      save: () => saveOnnx('qoperator'),
    },
    {
      name: 'QONNX',
      text: 'Quant nodes of any number of bits, for FPGA tools such as FINN and hls4ml.',
      button: 'Save QONNX',
      save: () => saveOnnx('qonnx'),
    },
    {
      name: 'TFLite',
      text: 'For LiteRT, with channels last. It is all integers with the recipe Integers only.',
      button: 'Save .tflite',
      save: saveTflite,
    },
    {
      name: 'C',
      text: 'C99 without libraries, for a microcontroller: the network, its kernels, its weights.',
      button: 'Save C',
      save: saveC,
    },
    planDownload,
    {
      name: 'Config',
      text: 'The settings as JSON, for quantize() and the command line.',
      button: 'Save config',
      save: saveConfig,
    },
    {
      name: 'Record',
      text: 'Every decision: bits, scales and zero points of each input and output.',
      button: 'Save record',
      save: saveRecord,
    },
    ...(report ? [reportDownload] : []),
  ];
}

const planDownload: Download = {
  name: 'Saved plan',
  text: 'Starts several times as fast in Requant of this version, on processors like this one.',
  button: 'Save plan',
  save: savePlan,
};

const reportDownload: Download = {
  name: 'Report',
  text: 'The comparison as one page without scripts, to send to others.',
  button: 'Save report',
  save: saveReport,
};

async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    announcement.value = `${what} is copied.`;
  } catch {
    announcement.value = `The browser does not allow copying ${what.toLowerCase()}.`;
  }
}

function CopyButton({ text, what }: { text: string; what: string }) {
  const [done, setDone] = useState(false);
  return (
    <button
      type="button"
      class="button small"
      onClick={() => {
        void copy(text, what).then(() => setDone(true));
        setTimeout(() => setDone(false), 2500);
      }}
    >
      <Icon name={done ? 'check' : 'copy'} />
      {done ? 'Copied' : 'Copy'}
    </button>
  );
}

function Code() {
  const now = result.value!;
  const ending = now.record ? 'qdq' : 'weights';
  const file = `${stem()}.${ending}.onnx`;
  const snippets = snippetsOf(file, model.value!.info, now, recipeOf(now.recipe));
  const [chosen, setChosen] = useState('npm');
  const { code } = snippets.find(({ id }) => id === chosen)!;
  return (
    <section class="card" aria-labelledby="code-title">
      <h2 id="code-title">Code that uses it</h2>
      <div class="row-between">
        <div class="tabs" role="group" aria-label="Kinds of programs">
          {snippets.map((one) => (
            <button
              key={one.id}
              type="button"
              class="step"
              aria-pressed={one.id === chosen}
              aria-current={one.id === chosen ? 'true' : undefined}
              onClick={() => setChosen(one.id)}
            >
              {one.name}
            </button>
          ))}
        </div>
        <CopyButton text={code} what="The code" />
      </div>
      <pre class="code">{code}</pre>
    </section>
  );
}

function Link() {
  const now = result.value!;
  const link = linkOf(now.recipe, now.widths);
  return (
    <section class="card" aria-labelledby="link-title">
      <h2 id="link-title">A link to this recipe</h2>
      <p class="hint">
        It carries the recipe or its settings and the bits of single layers, never the model.
      </p>
      <div class="row-between">
        <code>{link}</code>
        <CopyButton text={link} what="The link" />
      </div>
    </section>
  );
}

export function Take() {
  if (!result.value) {
    return (
      <NothingYet id="take-title" title="Nothing to take yet" lead="Quantize the model first." />
    );
  }
  return (
    <div class="page">
      <div>
        <h1 id="take-title" tabIndex={-1}>
          Take it with you
        </h1>
        <p class="lead">
          {recipeOf(result.value.recipe).name} of {model.value!.name}
          {stale.value ? ', from before the last change of settings' : ''}.
        </p>
      </div>
      <section class="card" aria-labelledby="files-title">
        <h2 id="files-title">Files</h2>
        <ul class="downloads">
          {downloadsOf().map(({ name, text, button, save, primary }) => (
            <li class="download" key={name}>
              <h3>{name}</h3>
              <p>{text}</p>
              <button type="button" class={primary ? 'button primary' : 'button'} onClick={save}>
                <Icon name="take" />
                {button}
              </button>
            </li>
          ))}
        </ul>
      </section>
      <Code />
      <Link />
    </div>
  );
}

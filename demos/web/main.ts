// The demo page: loads the shipped network, quantizes it in a Worker, compares both networks and shows the
// result.

import {
  type CompareReport,
  RequantError,
  type SampleResult,
  type WorkerModel,
  type WorkerQuantizedModel,
  createWorker,
} from 'requant';
import { type ImageSet, feedsOf, imageAt, imageSamples, readIdxImages } from 'requant/dataset';
import { chartStyle, formatBytes, formatShare, layerChart, metricRows } from 'requant/report';

const CLASSES = [
  'T-shirt',
  'Trouser',
  'Pullover',
  'Dress',
  'Coat',
  'Sandal',
  'Shirt',
  'Sneaker',
  'Bag',
  'Boot',
];
const IMAGES_SHOWN = 40;

function element<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

const start = element<HTMLButtonElement>('start');
const cancel = element<HTMLButtonElement>('cancel');
const save = element<HTMLButtonElement>('save');
const status = element('status');
const count = element('count');
const progress = element<HTMLProgressElement>('progress');

/** Shows the phase, which screen readers announce, and its progress, which they do not. */
function say(text: string, more = '', isError = false): void {
  if (status.textContent !== text) status.textContent = text;
  count.textContent = more;
  status.classList.toggle('error', isError);
}

/**
 * Disabled buttons use aria-disabled: the attribute `disabled` would take the keyboard's focus away from the
 * button, and with it the position on the page.
 */
function enable(button: HTMLButtonElement, enabled: boolean): void {
  button.setAttribute('aria-disabled', String(!enabled));
}

function isEnabled(button: HTMLButtonElement): boolean {
  return button.getAttribute('aria-disabled') !== 'true';
}

/** Hides a button and moves the focus to the start button, which is always visible. */
function hide(button: HTMLButtonElement): void {
  if (document.activeElement === button) start.focus();
  button.hidden = true;
}

function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className: string,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

/** Keeps a number on the line of its unit. */
function unbroken(text: string): string {
  return text.replace(/(\d) (?=([kM]?B|ms|%|x)( |$))/g, '$1\u00a0');
}

function describe(error: unknown): string {
  if (error instanceof RequantError) return [error.message, error.hint].filter(Boolean).join('. ');
  return error instanceof Error ? error.message : String(error);
}

async function fetchBytes(url: URL): Promise<Uint8Array> {
  const failed = (why: string) => new Error(`${url.pathname} cannot be loaded: ${why}`);
  const response = await fetch(url).catch((error: unknown) => {
    throw failed(describe(error));
  });
  if (!response.ok) throw failed(`${response.status} ${response.statusText}`);
  return new Uint8Array(await response.arrayBuffer());
}

function drawImage(set: ImageSet, index: number): HTMLCanvasElement {
  const { width, height, data } = imageAt(set, index);
  const canvas = make('canvas', '');
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', `Image ${index}: ${CLASSES[set.labels![index]!]}`);
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d')!;
  const pixels = context.createImageData(width, height);
  data.forEach((grey, pixel) => pixels.data.set([grey, grey, grey, 255], pixel * 4));
  context.putImageData(pixels, 0, 0);
  return canvas;
}

function showImages(set: ImageSet, results: readonly SampleResult[]): void {
  const differs = ({ floatTop1, candidateTop1 }: SampleResult) => floatTop1 !== candidateTop1;
  const order = results.map((_, index) => index);
  // Sorting is stable, so the rest keeps the order of the test set.
  order.sort((a, b) => Number(differs(results[b]!)) - Number(differs(results[a]!)));
  const figures = order.slice(0, IMAGES_SHOWN).map((index) => {
    const result = results[index]!;
    const label = set.labels![index]!;
    const line = (kind: string, top1: number) => {
      const answer = make('span', 'answer', make('span', 'kind', `${kind} `));
      const said = CLASSES[top1] ?? String(top1);
      if (top1 === label) answer.append(said);
      else answer.append(make('s', 'wrong', said), make('span', 'rq-hidden', ' (wrong)'));
      return answer;
    };
    const caption = make(
      'figcaption',
      '',
      line('float', result.floatTop1),
      line('int8', result.candidateTop1),
    );
    const figure = make('figure', differs(result) ? 'image differs' : 'image');
    figure.title = `Image ${index}: ${CLASSES[label]}`;
    figure.append(drawImage(set, index), caption);
    const item = make('div', '', figure);
    item.setAttribute('role', 'listitem');
    return item;
  });
  element('images').replaceChildren(...figures);
}

function showReport(report: CompareReport): void {
  const { top1, size, latency } = report;
  const figures: [string, string][] = [
    [formatShare(top1.float), 'right in float'],
    [formatShare(top1.candidate), 'right in 8 bits'],
    [formatShare(top1.agreement), 'the same answer'],
    [formatBytes(size.candidateBytes), `instead of ${formatBytes(size.floatBytes)}`],
    // Without cross-origin isolation a browser's clock only ticks every 0.1 ms.
    [`${latency.ratio.toFixed(crossOriginIsolated ? 2 : 0)} x`, 'as fast as float'],
  ];
  element('figures').replaceChildren(
    ...figures.map(([value, what]) =>
      make('div', 'figure', make('dt', '', what), make('dd', '', value)),
    ),
  );
  const head = (scope: 'col' | 'row', text: string) => {
    const cell = make('th', '', text.trimStart());
    cell.scope = scope;
    if (text.startsWith(' ')) cell.className = 'part';
    return cell;
  };
  element('metrics').replaceChildren(
    make('caption', 'rq-hidden', 'Accuracy, size, latency and memory of both networks'),
    make(
      'thead',
      '',
      make('tr', '', ...['measure', 'float', '8 bits', 'both'].map((title) => head('col', title))),
    ),
    make(
      'tbody',
      '',
      ...metricRows(report).map(({ name, ...cells }) => {
        const { float, candidate, both } = cells;
        const row = [float, candidate, both].map((cell) => make('td', '', unbroken(cell)));
        return make('tr', '', head('row', name), ...row);
      }),
    ),
  );
  // layerChart escapes every name of the model.
  element('chart').innerHTML = layerChart(report.layers);
}

async function main(): Promise<void> {
  const [worker, modelBytes, calibrationFile, testFile, labelFile] = await Promise.all([
    createWorker(),
    fetchBytes(new URL('../models/fashion_mnist.onnx', import.meta.url)),
    fetchBytes(new URL('../data/calibration-images-idx3-ubyte', import.meta.url)),
    fetchBytes(new URL('../data/test-images-idx3-ubyte', import.meta.url)),
    fetchBytes(new URL('../data/test-labels-idx1-ubyte', import.meta.url)),
  ]);
  const model: WorkerModel = await worker.loadModel(modelBytes, { preload: ['tools'] });
  const calibration = imageSamples(await readIdxImages(calibrationFile), { input: 'image' });
  const testSet = await readIdxImages(testFile, labelFile);
  const test = imageSamples(testSet, { input: 'image' });
  const { variant } = await worker.engineInfo();

  const summary = element('summary');
  summary.textContent = await model.summary();
  summary.hidden = false;
  say(`Ready. Engine: WebAssembly ${variant === 'relaxed' ? 'relaxed SIMD' : 'SIMD'}.`);
  enable(start, true);

  let quantized: WorkerQuantizedModel | undefined;

  async function quantizeAndCompare(signal: AbortSignal): Promise<void> {
    const began = performance.now();
    await quantized?.dispose();
    quantized = undefined;
    quantized = await worker.quantize(model, {
      calibration: feedsOf(calibration),
      signal,
      onProgress: ({ phase, done, total = 1 }) => {
        if (phase === 'calibrate') say('Calibrating', `${done} of ${total}`);
        else say('Choosing scales and repairing the rounding ...');
        progress.value = phase === 'calibrate' ? (done / total) * 0.3 : 0.3;
      },
    });
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    const results: SampleResult[] = [];
    const report = await worker.compare(model, quantized, {
      dataset: test,
      layerwise: true,
      signal,
      onProgress: ({ done, total = test.length, sample }) => {
        results.push(sample);
        say('Comparing on test images', `${done} of ${total}`);
        progress.value = 0.3 + (done / total) * 0.7;
      },
    });
    const operators = quantized.config.operators.filter(({ quantized: is }) => is).length;
    say(
      `Done: ${operators} operators quantized in ${seconds} s, compared on ${report.samples} images. ` +
        `Engine: WebAssembly ${variant === 'relaxed' ? 'relaxed SIMD' : 'SIMD'}.`,
    );
    element('result').hidden = false;
    showReport(report);
    showImages(testSet, results);
    save.hidden = false;
    document.body.dataset['report'] = JSON.stringify(report);
  }

  start.addEventListener('click', () => {
    if (!isEnabled(start)) return;
    const controller = new AbortController();
    const abort = () => {
      if (controller.signal.aborted) return;
      controller.abort();
      enable(cancel, false);
      say('Cancelling ...');
    };
    enable(start, false);
    enable(cancel, true);
    hide(save);
    cancel.hidden = false;
    progress.hidden = false;
    progress.value = 0;
    cancel.addEventListener('click', abort);
    quantizeAndCompare(controller.signal)
      .catch((error: unknown) => {
        const aborted = error instanceof RequantError && error.code === 'ABORTED';
        say(aborted ? 'Cancelled.' : describe(error), '', !aborted);
      })
      .finally(() => {
        cancel.removeEventListener('click', abort);
        enable(start, true);
        hide(cancel);
        progress.hidden = true;
      });
  });

  save.addEventListener('click', () => {
    const writing = quantized?.toOnnx({ format: 'qdq' }).then((bytes) => {
      const link = make('a', '');
      link.href = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
      link.download = 'fashion_mnist.int8.onnx';
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    });
    writing?.catch((error: unknown) => say(describe(error), '', true));
  });
}

// Before the page's own style, which may override it.
document.head.prepend(make('style', '', chartStyle));
main().catch((error: unknown) => say(describe(error), '', true));

// The page: loads the shipped network, quantizes it in a Worker, compares, shows.

import {
  type CompareReport,
  RequantError,
  type SampleResult,
  type WorkerModel,
  type WorkerQuantizedModel,
  createWorker,
} from 'requant';
import { type ImageSet, feedsOf, imageAt, imageSamples, readIdxImages } from 'requant/dataset';
import { formatBytes, formatShare, layerChart, metricRows } from 'requant/report';

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
const progress = element<HTMLProgressElement>('progress');

function say(text: string, isError = false): void {
  status.textContent = text;
  status.classList.toggle('error', isError);
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

async function fetchBytes(url: URL): Promise<Uint8Array> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname}: ${response.status} ${response.statusText}`);
  return new Uint8Array(await response.arrayBuffer());
}

function drawImage(set: ImageSet, index: number): HTMLCanvasElement {
  const { width, height, data } = imageAt(set, index);
  const canvas = make('canvas', '');
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
  // Sorting is stable: the rest stays in the order of the test set.
  order.sort((a, b) => Number(differs(results[b]!)) - Number(differs(results[a]!)));
  const figures = order.slice(0, IMAGES_SHOWN).map((index) => {
    const result = results[index]!;
    const label = set.labels![index]!;
    const line = (kind: string, top1: number) =>
      make(
        'span',
        'answer',
        make('span', 'kind', `${kind} `),
        make('span', top1 === label ? '' : 'wrong', CLASSES[top1] ?? String(top1)),
      );
    const caption = make(
      'figcaption',
      '',
      line('float', result.floatTop1),
      line('int8', result.candidateTop1),
    );
    const figure = make('figure', differs(result) ? 'image differs' : 'image');
    figure.title = `Image ${index}: ${CLASSES[label]}`;
    figure.append(drawImage(set, index), caption);
    return figure;
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
    // Without cross-origin isolation a browser's clock ticks every 0.1 ms only.
    [`${latency.ratio.toFixed(crossOriginIsolated ? 2 : 0)} x`, 'as fast as float'],
  ];
  element('figures').replaceChildren(
    ...figures.map(([value, what]) =>
      make('div', 'figure', make('b', '', value), make('span', '', what)),
    ),
  );
  const row = (tag: 'th' | 'td', cells: readonly string[]) =>
    make('tr', '', ...cells.map((cell) => make(tag, '', cell)));
  element('metrics').replaceChildren(
    make('thead', '', row('th', ['', 'float', '8 bits', 'both'])),
    make(
      'tbody',
      '',
      ...metricRows(report).map(({ name, float, candidate, both }) =>
        row('td', [name, float, candidate, both]),
      ),
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
  start.disabled = false;

  let quantized: WorkerQuantizedModel | undefined;

  async function quantizeAndCompare(signal: AbortSignal): Promise<void> {
    const began = performance.now();
    await quantized?.dispose();
    quantized = undefined;
    quantized = await worker.quantize(model, {
      calibration: feedsOf(calibration),
      signal,
      onProgress: ({ phase, done, total = 1 }) => {
        if (phase === 'calibrate') say(`Calibrating: ${done} of ${total}`);
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
        say(`Comparing on test images: ${done} of ${total}`);
        progress.value = 0.3 + (done / total) * 0.7;
      },
    });
    const count = quantized.config.operators.filter((operator) => operator.quantized).length;
    say(
      `Done: ${count} operators quantized in ${seconds} s, compared on ${report.samples} images. ` +
        `Engine: WebAssembly ${variant === 'relaxed' ? 'relaxed SIMD' : 'SIMD'}.`,
    );
    element('result').hidden = false;
    showReport(report);
    showImages(testSet, results);
    save.hidden = false;
    document.body.dataset['report'] = JSON.stringify(report);
  }

  start.addEventListener('click', () => {
    const controller = new AbortController();
    const abort = () => controller.abort();
    start.disabled = true;
    save.hidden = true;
    cancel.hidden = false;
    progress.hidden = false;
    progress.value = 0;
    cancel.addEventListener('click', abort);
    quantizeAndCompare(controller.signal)
      .catch((error: unknown) => {
        const aborted = error instanceof RequantError && error.code === 'ABORTED';
        say(aborted ? 'Cancelled.' : String(error), !aborted);
      })
      .finally(() => {
        cancel.removeEventListener('click', abort);
        start.disabled = false;
        cancel.hidden = true;
        progress.hidden = true;
      });
  });

  save.addEventListener('click', () => {
    void quantized?.toOnnx({ format: 'qdq' }).then((bytes) => {
      const link = make('a', '');
      link.href = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
      link.download = 'fashion_mnist.int8.onnx';
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    });
  });
}

main().catch((error: unknown) => say(String(error), true));

// The page: takes pictures of the camera, quantizes the network in a Worker, and shows what it says in float and in 8
// bits, with the time of each.

import { type RequantWorker, type Tensor, type WorkerSession, createWorker } from 'requant';
import { bytesText, element, fail, say } from '../page.js';
import { type Picture, type Task, tasks } from './tasks.js';

const CALIBRATION_PICTURES = 24;
/** The share of the newest picture in the mean of times. */
const NEWEST = 0.1;

const video = element<HTMLVideoElement>('video');
const start = element<HTMLButtonElement>('start');
const choice = element<HTMLSelectElement>('task');

/** One of the two networks: its session, where it is shown, and the mean of its times in milliseconds. */
interface Side {
  session: WorkerSession;
  context: CanvasRenderingContext2D;
  text: HTMLElement;
  rate: HTMLElement;
  ms?: number;
}

let worker: RequantWorker | undefined;
/** Counts starts: a loop ends when it is not the newest one. */
let turn = 0;

/** Opens the camera. Throws an error that says what is wrong in plain words. */
async function openCamera(): Promise<MediaStream> {
  if (!navigator.mediaDevices) {
    throw new Error('This page may not use a camera: it must come over https, or from localhost.');
  }
  const size = { width: { ideal: 640 }, height: { ideal: 480 } };
  try {
    return await navigator.mediaDevices.getUserMedia({ video: { facingMode: 'user', ...size } });
  } catch (error) {
    const reasons: Record<string, string> = {
      NotAllowedError:
        'The browser may not use the camera. Allow it beside the address, and start again.',
      NotFoundError: 'There is no camera. Connect one, and start again.',
      NotReadableError: 'Another program uses the camera. Close it, and start again.',
    };
    const { name, message } = error as Error;
    throw new Error(reasons[name] ?? `The camera does not start: ${message}`);
  }
}

/** Copies the middle square of the camera's picture into a canvas. */
function drawSquare(context: CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D): void {
  const { videoWidth: width, videoHeight: height } = video;
  const side = Math.min(width, height);
  const [left, top] = [(width - side) / 2, (height - side) / 2];
  context.drawImage(
    video,
    left,
    top,
    side,
    side,
    0,
    0,
    context.canvas.width,
    context.canvas.height,
  );
}

/** The present picture, which stays the same while the camera goes on. */
function takePicture(): Picture {
  const kept = new Map<number, Uint8ClampedArray>();
  return (side) => {
    let pixels = kept.get(side);
    if (!pixels) {
      const context = new OffscreenCanvas(side, side).getContext('2d')!;
      drawSquare(context);
      pixels = context.getImageData(0, 0, side, side).data;
      kept.set(side, pixels);
    }
    return pixels;
  };
}

const nextPicture = () =>
  new Promise<void>((resolve) => {
    if (video.requestVideoFrameCallback) video.requestVideoFrameCallback(() => resolve());
    else requestAnimationFrame(() => resolve());
  });

/** Feeds for calibration: those of the task, or pictures of the camera. */
async function samplesOf(task: Task): Promise<Record<string, Tensor>[]> {
  if (task.calibration) return task.calibration();
  const samples = [];
  for (let index = 0; index < CALIBRATION_PICTURES; index++) {
    say(`Looking at ${CALIBRATION_PICTURES} pictures to choose the 8-bit scales: ${index + 1} ...`);
    await nextPicture();
    samples.push(task.feeds(takePicture()));
  }
  return samples;
}

/** Makes both networks of the task. */
async function prepare(task: Task): Promise<Side[]> {
  say('Loading the network ...');
  worker ??= await createWorker();
  const model = await worker.loadModel(await task.model());
  const calibration = await samplesOf(task);
  say('Quantizing ...');
  const quantized = await worker.quantize(model, { calibration });
  const sideOf = async (name: string, source: typeof model | typeof quantized, bytes: number) => {
    element(`${name}-size`).textContent = bytesText(bytes);
    return {
      session: await worker!.createSession(source),
      context: element<HTMLCanvasElement>(`${name}-view`).getContext('2d')!,
      text: element(`${name}-text`),
      rate: element(`${name}-rate`),
    };
  };
  const sides = [
    await sideOf('float', model, (await model.toOnnx()).length),
    await sideOf('int8', quantized, (await quantized.toOnnx()).length),
  ];
  await model.dispose();
  await quantized.dispose();
  return sides;
}

async function run(task: Task, side: Side, picture: Picture): Promise<void> {
  const feeds = task.feeds(picture);
  const began = performance.now();
  const outputs = await side.session.run(feeds);
  const ms = performance.now() - began;
  side.ms = side.ms === undefined ? ms : side.ms + NEWEST * (ms - side.ms);
  drawSquare(side.context);
  const text = task.show(outputs, side.context);
  if (side.text.textContent !== text) side.text.textContent = text;
  side.rate.textContent = `${(1000 / side.ms).toFixed(0)} a second, ${side.ms.toFixed(1)} ms each`;
}

async function watch(): Promise<void> {
  const own = ++turn;
  const task = tasks[choice.value]!;
  if (!video.srcObject) {
    say('Waiting for the camera ...');
    video.srcObject = await openCamera();
    await video.play();
  }
  const sides = await prepare(task);
  element('views').hidden = false;
  start.textContent = 'Stop';
  say('Both networks look at the same pictures, one after the other.');
  while (own === turn) {
    await nextPicture();
    const picture = takePicture();
    // The network that is first alternates, since the second one finds the caches of the processor warm.
    sides.reverse();
    for (const side of sides) await run(task, side, picture);
  }
  for (const { session } of sides) await session.release();
}

function stop(): void {
  turn++;
  for (const track of (video.srcObject as MediaStream | null)?.getTracks() ?? []) track.stop();
  video.srcObject = null;
  start.textContent = 'Start the camera';
}

const begin = () =>
  void watch().catch((error: unknown) => {
    stop();
    fail(error);
  });

start.addEventListener('click', () => {
  if (!video.srcObject) return begin();
  stop();
  say('Stopped.');
});
choice.addEventListener('change', () => {
  if (video.srcObject) begin();
});

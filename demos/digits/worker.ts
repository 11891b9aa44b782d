// The Worker: trains both networks, and then answers drawings.

import { InferenceSession } from 'requant';
import { type Drawing, feedsOf, learn } from './learn.js';

/** From the page: drawings to learn from, or one to answer. */
export type Order = { drawings: Drawing[] } | { pixels: Float32Array };

/** To the page. */
export type News =
  | { progress: string; share: number }
  | { ready: { floatBytes: number; oneBitBytes: number } }
  | { scores: { float: number[]; oneBit: number[] } }
  | { error: string };

let float: InferenceSession | undefined;
let oneBit: InferenceSession | undefined;
const tell = (news: News) => postMessage(news);

async function train(drawings: Drawing[]): Promise<void> {
  const models = await learn(drawings, (progress, share) => tell({ progress, share }));
  float?.dispose();
  oneBit?.dispose();
  float = await InferenceSession.create(models.float);
  oneBit = await InferenceSession.create(models.oneBit);
  // ONNX's smallest integers have two bits; a weight of one bit takes one bit in a file of `packWeights()`.
  const weights = models.float.info.parameters;
  tell({ ready: { floatBytes: 4 * weights, oneBitBytes: Math.ceil(weights / 8) } });
  models.float.dispose();
  models.oneBit.dispose();
}

async function answer(pixels: Float32Array): Promise<void> {
  if (!float || !oneBit) return;
  const scoresOf = async (session: InferenceSession) => {
    const { scores } = await session.run(feedsOf(pixels));
    return [...(scores!.data as Float32Array)];
  };
  tell({ scores: { float: await scoresOf(float), oneBit: await scoresOf(oneBit) } });
}

addEventListener('message', ({ data }: MessageEvent<Order>) => {
  const work = 'drawings' in data ? train(data.drawings) : answer(data.pixels);
  work.catch((error: Error) => tell({ error: error.message }));
});

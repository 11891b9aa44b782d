// Pretrained networks, float and quantized, on real images, compared with the logits of other engines.
//
// Quick: two networks. REQUANT_LONG=1: all of them.

import assert from 'node:assert/strict';
import test from 'node:test';
import { InferenceSession, loadModel, quantize } from 'requant';
import { feedsOf, take } from 'requant/dataset';
import { movedImages } from './moved_images.mjs';
import { argmax, cifarImages, dataOf, modelPath, networks, skipShared } from './shared_models.mjs';
import { shareOfToday } from './rounds.mjs';

const LONG = Boolean(process.env.REQUANT_LONG);
const CALIBRATION_IMAGES = { cifar: 128, imagenet: 32 };
/**
 * The share of right answers that quantization may cost beyond chance: answers change in both directions, and
 * the difference of n changes has a standard deviation of sqrt(n). The noise does not depend on chance: see
 * `decibels` of the networks.
 */
const MAY_LOSE = { cifar: 3 / 600, imagenet: 2 / 100 };
/** The least share of equal answers, a guard against regressions; narrow MobileNets have close calls. */
const MUST_AGREE = { cifar: 0.97, imagenet: 0.8 };
/** The largest arena, relative to the smallest possible one. */
const ARENA_FACTOR = 1.15;

function checkArena(session, name) {
  const { arena, lowerBound } = session.plan().memory;
  assert.ok(
    arena <= lowerBound * ARENA_FACTOR,
    `${name}: an arena of ${arena} bytes, where ${lowerBound} would be enough`,
  );
}

/** For each image, whether the answer is right. */
async function rightOf(session, images) {
  const right = [];
  for await (const { feeds, label } of images) {
    const [output] = Object.values(await session.run(feeds));
    right.push(argmax(output.data) === label);
  }
  return right;
}

const today = shareOfToday(networks);
for (const network of networks) {
  const { name, kind, right, decibels } = network;
  const skip =
    skipShared ||
    (!network.quick && !LONG && 'only with REQUANT_LONG=1') ||
    (!network.quick && !today.includes(network) && 'not today');
  test(name, { skip }, async (t) => {
    const { calibration, test: images, logits, classes } = dataOf(network);
    const model = await loadModel(modelPath(name));
    const quantized = await quantize(model, {
      calibration: feedsOf(take(calibration, CALIBRATION_IMAGES[kind])),
    });
    t.after(() => (quantized.dispose(), model.dispose()));
    const float = await InferenceSession.create(model);
    const int8 = await InferenceSession.create(quantized);
    const count = { float: 0, int8: 0, agree: 0, reference: 0 };
    const ms = { float: 0, int8: 0 };
    let [largest, signal, noise] = [0, 0, 0];
    let [lowest, highest] = [Infinity, -Infinity];
    let index = 0;
    for await (const { feeds, label } of images) {
      const expected = logits.subarray(index * classes, (index + 1) * classes);
      index += 1;
      const start = performance.now();
      const [a] = Object.values(await float.run(feeds));
      const middle = performance.now();
      const [b] = Object.values(await int8.run(feeds));
      ms.float += middle - start;
      ms.int8 += performance.now() - middle;
      assert.equal(a.size, classes);
      for (let at = 0; at < classes; at++) {
        largest = Math.max(largest, Math.abs(a.data[at] - expected[at]));
        signal += a.data[at] ** 2;
        noise += (a.data[at] - b.data[at]) ** 2;
        lowest = Math.min(lowest, expected[at]);
        highest = Math.max(highest, expected[at]);
      }
      const [x, y] = [argmax(a.data), argmax(b.data)];
      count.reference += Number(x === argmax(expected));
      count.agree += Number(x === y);
      count.float += Number(x === label);
      count.int8 += Number(y === label);
    }
    const total = images.length;
    const snr = 10 * Math.log10(signal / noise);
    t.diagnostic(
      `${name}: float ${right === null ? '-' : count.float} int8 ${right === null ? '-' : count.int8} of ${total}, ` +
        `the same ${count.agree}, ${snr.toFixed(1)} dB, largest float error ${((largest / (highest - lowest)) * 1e6).toFixed(2)}e-6 of the range, ` +
        `mean ms ${(ms.float / total).toFixed(2)} and ${(ms.int8 / total).toFixed(2)}`,
    );
    assert.ok(largest <= 1e-4 * (highest - lowest), `float logits differ by ${largest}`);
    assert.equal(count.reference, total, 'float answers are those of the reference');
    if (right !== null) {
      assert.equal(count.float, right, 'right answers of the float network');
      // The moved images include the originals.
      const more =
        kind === 'cifar'
          ? cifarImages(network, 'train_jpeg_5k')
          : movedImages(LONG ? images : take(images, 25));
      const [before, after] = [await rightOf(float, more), await rightOf(int8, more)];
      const lost = before.filter((was, i) => was && !after[i]).length;
      const won = before.filter((was, i) => !was && after[i]).length;
      t.diagnostic(`${name}: ${lost} right answers lost, ${won} won, of ${more.length}`);
      const beyondChance = lost - won - Math.sqrt(lost + won);
      assert.ok(beyondChance <= MAY_LOSE[kind] * more.length, `quantization costs ${lost - won}`);
    }
    assert.ok(snr >= decibels, `${snr} dB`);
    assert.ok(
      count.agree >= MUST_AGREE[kind] * total,
      `the same answer to ${count.agree} of ${total}`,
    );
    checkArena(float, 'float');
    checkArena(int8, 'int8');
    await float.release();
    await int8.release();
  });
}

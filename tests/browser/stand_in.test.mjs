// Pictures as tensors and back, in Chromium: this package's Tensor and onnxruntime-web's give the same numbers and
// pixels; and sessions behind env.wasm.proxy on a page.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { BUILD, launch, openPage } from './browser.mjs';
import { serve } from './site.mjs';

const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>Pictures as tensors</title>
    <link rel="icon" href="data:," />
    <script type="module">
      import * as ours from '/dist/index.js';
      import * as theirs from '/node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs';
      Object.assign(window, { engines: { ours, theirs }, ready: true });
    </script>
  </head>
  <body></body>
</html>
`;

let site;
let browser;
let page;
let problems;

before(async () => {
  mkdirSync(path.join(BUILD, 'stand_in'), { recursive: true });
  writeFileSync(path.join(BUILD, 'stand_in/index.html'), PAGE);
  site = await serve(() => {});
  browser = await launch();
  ({ page, problems } = await openPage(browser));
  await page.goto(`${site.url}build/stand_in/index.html`);
  await page.waitForFunction(() => window.ready);
  await page.evaluate(async () => {
    const canvas = document.createElement('canvas');
    canvas.width = 12;
    canvas.height = 8;
    const context = canvas.getContext('2d', { colorSpace: 'srgb' });
    const pixels = context.createImageData(12, 8);
    for (let i = 0; i < pixels.data.length; i++) {
      pixels.data[i] = i % 4 === 3 ? 255 : (i * 37 + (i >> 3)) % 256;
    }
    context.putImageData(pixels, 0, 0);
    const url = canvas.toDataURL();
    const element = new Image();
    element.src = url;
    await element.decode();
    const bitmap = await createImageBitmap(canvas);
    window.pictures = { pixels, element, bitmap, url };
    window.numbers = ({ type, dims, data }) => ({ type, dims: [...dims], data: [...data] });
  });
});

after(async () => {
  await browser?.close();
  await site?.close();
});

/** Calls a function of the page with each package's Tensor. */
const onBoth = (action, argument) =>
  page.evaluate(
    async ([text, given]) => {
      const run = (0, eval)(text);
      const results = {};
      for (const [name, { Tensor }] of Object.entries(window.engines)) {
        results[name] = await run(Tensor, window.pictures, structuredClone(given));
      }
      return results;
    },
    [String(action), argument],
  );

const norm = { mean: [58.4, 57.1, 57.4, 255], bias: [-123.7, -116.3, -103.5, 0] };

for (const kind of ['pixels', 'element', 'bitmap', 'url']) {
  test(`Tensor.fromImage of ${kind}`, async () => {
    // onnxruntime-web refuses the format of elements, and asks for options with bitmaps.
    const formats =
      kind === 'element'
        ? [{}]
        : ['RGB', 'RGBA', 'BGR', 'RBG'].map((tensorFormat) => ({ tensorFormat }));
    const both = [...formats, ...formats.map((format) => ({ ...format, norm }))];
    for (const options of kind === 'element' || kind === 'bitmap' ? both : [undefined, ...both]) {
      const action = async (Tensor, pictures, [name, given]) =>
        window.numbers(await Tensor.fromImage(pictures[name], given ?? undefined));
      const { ours, theirs } = await onBoth(action, [kind, options ?? null]);
      assert.deepEqual(ours, theirs, JSON.stringify(options));
    }
  });
}

test('Tensor.toImageData and Tensor.toDataURL', async () => {
  const action = async (Tensor, _pictures, [format, given]) => {
    const channels = format.length;
    const data = Float32Array.from({ length: channels * 6 }, (_, i) => ((i * 7) % 19) / 18);
    // onnxruntime-web draws rectangles of CSS colors, whose alpha it makes 255.
    if (channels === 4) data.fill(1, 18);
    const tensor = new Tensor('float32', data, [1, channels, 2, 3]);
    const options = { format, ...given };
    const image = tensor.toImageData(options);
    const picture = new Image();
    picture.src = tensor.toDataURL(options);
    await picture.decode();
    const canvas = document.createElement('canvas');
    canvas.width = picture.width;
    canvas.height = picture.height;
    const context = canvas.getContext('2d');
    context.drawImage(picture, 0, 0);
    const drawn = context.getImageData(0, 0, picture.width, picture.height);
    return { image: [...image.data], drawn: [...drawn.data], size: [image.width, image.height] };
  };
  for (const format of ['RGB', 'RGBA']) {
    for (const given of [{}, { norm: { mean: 200, bias: 0.1 } }]) {
      if (format === 'RGBA' && given.norm) continue; // alpha below 255, see above
      const { ours, theirs } = await onBoth(action, [format, given]);
      assert.deepEqual(ours.image, theirs.image);
      assert.deepEqual(ours.size, theirs.size);
      ours.drawn.forEach((value, at) => {
        assert.ok(
          Math.abs(value - theirs.drawn[at]) <= 1,
          `pixel ${at >> 2}: ${value}, ${theirs.drawn[at]}`,
        );
      });
    }
  }
});

test('layouts, bytes and sizes that onnxruntime-web lacks', async () => {
  const result = await page.evaluate(async () => {
    const { Tensor } = window.engines.ours;
    const { pixels, element, bitmap } = window.pictures;
    const planes = await Tensor.fromImage(pixels, { dataType: 'uint8' });
    const rows = await Tensor.fromImage(pixels, { tensorLayout: 'NHWC' });
    const sizes = [];
    for (const picture of [pixels, element, bitmap]) {
      const options = {
        resizedWidth: 6,
        resizedHeight: 4,
        tensorFormat: 'RGB',
        tensorLayout: 'NHWC',
      };
      sizes.push((await Tensor.fromImage(picture, options)).dims);
    }
    return {
      planes: window.numbers(planes),
      rows: window.numbers(rows),
      sizes,
      back: [...rows.toImageData({ tensorLayout: 'NHWC' }).data],
      pixels: [...pixels.data],
    };
  });
  assert.equal(result.planes.type, 'uint8');
  assert.deepEqual(result.planes.dims, [1, 3, 8, 12]);
  assert.deepEqual(result.rows.dims, [1, 8, 12, 3]);
  assert.equal(result.planes.data[96 + 5], result.pixels[4 * 5 + 1]);
  assert.ok(Math.abs(result.rows.data[3 * 5 + 1] - result.pixels[4 * 5 + 1] / 255) < 1e-6);
  assert.deepEqual(result.sizes, [
    [1, 4, 6, 3],
    [1, 4, 6, 3],
    [1, 4, 6, 3],
  ]);
  assert.deepEqual(result.back, result.pixels);
});

test('what is no picture is refused', async () => {
  const codes = await page.evaluate(async () => {
    const { Tensor } = window.engines.ours;
    const caught = async (action) => {
      try {
        return await action();
      } catch ({ code }) {
        return code;
      }
    };
    const { pixels } = window.pictures;
    return [
      await caught(() => Tensor.fromImage(5)),
      await caught(() => Tensor.fromImage('/absent.png')),
      await caught(() => Tensor.fromImage(pixels, { tensorFormat: 'GBR' })),
      await caught(() => Tensor.fromImage(pixels, { norm: { mean: 'x' } })),
      await caught(() => Tensor.fromImage(pixels, { resizedWidth: -1, resizedHeight: 2 })),
      await caught(() => new Tensor('float32', new Float32Array(8), [1, 2, 2, 2]).toImageData()),
      await caught(() => new Tensor('float32', new Float32Array(3), [3]).toDataURL()),
    ];
  });
  const argument = 'INVALID_ARGUMENT';
  assert.deepEqual(codes.slice(0, 5), [argument, 'LOAD_FAILED', argument, argument, argument]);
  assert.deepEqual(codes.slice(5), ['SHAPE_MISMATCH', 'SHAPE_MISMATCH']);
});

test('env.wasm.proxy and the store of quantized models on a page', async () => {
  const result = await page.evaluate(async () => {
    const { InferenceSession, Tensor, env } = window.engines.ours;
    const model = '/demos/models/fashion_mnist.onnx';
    const image = new Tensor('float32', new Float32Array(784).fill(0.3), [1, 1, 28, 28]);
    const scores = async (session) => [...(await session.run({ image })).logits.data];
    const local = await scores(await InferenceSession.create(model));
    env.wasm.proxy = true;
    const proxied = await scores(await InferenceSession.create(model));
    env.wasm.proxy = false;
    const quantize = { calibration: [{ image }] };
    const options = { quantize, cache: 'fashion' };
    const first = await scores(await InferenceSession.create(model, options));
    const stored = await new Promise((resolve) => {
      indexedDB.open('requant-models').onsuccess = ({ target }) => {
        const store = target.result.transaction('models').objectStore('models');
        store.get('fashion').onsuccess = (event) => resolve(event.target.result);
      };
    });
    const second = await scores(await InferenceSession.create(model, options));
    const bytes = await InferenceSession.create(stored);
    return { local, proxied, first, second, size: stored.length, names: bytes.outputNames };
  });
  assert.deepEqual(result.proxied, result.local);
  assert.deepEqual(result.second, result.first);
  assert.notDeepEqual(result.first, result.local);
  assert.ok(result.size > 1000);
  assert.deepEqual(result.names, ['logits']);
  assert.deepEqual(
    problems.filter((problem) => !/404|absent/.test(problem)),
    [],
  );
});

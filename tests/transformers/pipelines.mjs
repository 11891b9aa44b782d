// The pipelines that tests and measurements run, with inputs that no network is needed for.

/** The forms of files that tests run: how transformers.js names the types of weights and values. */
export const FORMS = ['fp32', 'fp16', 'q8', 'q4', 'q4f16'];

/**
 * How far scores, places and normal vectors of two engines may differ. Products of floats are summed in another
 * order. onnxruntime-web rounds every value of half floats to a relative 2^-11 between two operators, where this
 * engine keeps float32; four such roundings may add up.
 */
export const toleranceOf = (form) => (form.endsWith('f16') || form === 'fp16' ? 2 ** -9 : 1e-5);

/** A picture with gradients and edges. */
export function picture(RawImage, width, height) {
  const data = new Uint8ClampedArray(width * height * 3);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = (y * width + x) * 3;
      const inside = (x - width / 2) ** 2 + (y - height / 3) ** 2 < (height / 4) ** 2;
      data[at] = (255 * x) / width;
      data[at + 1] = inside ? 220 : (255 * y) / height;
      data[at + 2] = ((x >> 3) + (y >> 3)) % 2 ? 200 : 40;
    }
  }
  return new RawImage(data, width, height, 3);
}

/** Two seconds of a rising tone at 16 kHz. */
export function tone() {
  const rate = 16000;
  return Float32Array.from({ length: 2 * rate }, (_, i) => {
    const time = i / rate;
    return 0.4 * Math.sin(2 * Math.PI * (200 + 300 * time) * time) * Math.exp(-time);
  });
}

const sentences = ['The first day was long, but the water is hot.', 'No people'];

/**
 * A row for every pipeline: the model, and what it is asked. `numbers` are the results that engines compute
 * differently in their last bits, `exact` those that must be equal.
 */
export const pipelines = {
  'feature-extraction': {
    model: 'requant-test/minilm',
    async run(pipe) {
      const tensor = await pipe(sentences, { pooling: 'mean', normalize: true });
      return { numbers: [...tensor.data], exact: tensor.dims };
    },
  },
  'text-classification': {
    model: 'requant-test/distilbert-sst2',
    async run(pipe) {
      const found = (await pipe(sentences, { top_k: 3 })).flat();
      return { numbers: found.map(({ score }) => score), exact: found.map(({ label }) => label) };
    },
  },
  'image-classification': {
    model: 'requant-test/vit-tiny',
    async run(pipe, { RawImage }) {
      const found = await pipe(picture(RawImage, 90, 70), { top_k: 5 });
      return { numbers: found.map(({ score }) => score), exact: found.map(({ label }) => label) };
    },
  },
  'object-detection': {
    model: 'requant-test/detr-small',
    async run(pipe, { RawImage }) {
      const found = await pipe(picture(RawImage, 200, 150), { threshold: 0.1, percentage: true });
      return {
        numbers: found.flatMap(({ score, box }) => [score, box.xmin, box.ymin, box.xmax, box.ymax]),
        exact: found.map(({ label }) => label),
      };
    },
  },
  'automatic-speech-recognition': {
    model: 'requant-test/whisper-tiny',
    async run(pipe) {
      const { text } = await pipe(tone(), { max_new_tokens: 12 });
      return { numbers: [], exact: text };
    },
  },
  'text-generation': {
    model: 'requant-test/smol-llama',
    async run(pipe) {
      const [{ generated_text }] = await pipe('The water was', { max_new_tokens: 12 });
      return { numbers: [], exact: generated_text };
    },
  },
};

/** transformers.js without the hub, with models of a folder or an address. */
export function offline(transformers, folder) {
  transformers.env.allowRemoteModels = false;
  transformers.env.allowLocalModels = true;
  transformers.env.localModelPath = folder;
  transformers.env.useBrowserCache = false;
  transformers.env.useFSCache = false;
  return transformers;
}

/** Runs one pipeline; gives its result and the milliseconds of `rounds` further runs. */
export async function runPipeline(transformers, task, options, rounds = 0) {
  const { model, run } = pipelines[task];
  const pipe = await transformers.pipeline(task, model, options);
  try {
    const result = await run(pipe, transformers);
    const times = [];
    for (let round = 0; round < rounds; round++) {
      const start = performance.now();
      await run(pipe, transformers);
      times.push(performance.now() - start);
    }
    return { ...result, times };
  } finally {
    await pipe.dispose();
  }
}

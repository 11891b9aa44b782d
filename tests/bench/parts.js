// The measurements of single layers, in Node or on a page of Chromium (place.mjs). All arguments and results
// are plain data.

import { codes, normals, uniform } from './numbers.js';

const NUMBERS = { codes, normals, uniform };
const TILE_MEMORY = { a: 1 << 20, b: 2 << 20, out: 3 << 20 };

/** Numbers for every input; `dims` gives the sizes of inputs with open dimensions. */
function feedsOf(Tensor, inputs, { numbers, dims = {} }) {
  return Object.fromEntries(
    inputs.map(({ name, type, shape }) => {
      const sizes = dims[name] ?? shape;
      const values = NUMBERS[numbers](sizes.reduce((a, b) => a * b, 1));
      const data = type === 'float32' ? Float32Array.from(values) : values;
      return [name, new Tensor(type, data, sizes)];
    }),
  );
}

/**
 * @param engines `requant` and `ort`: the modules
 * @param read gives the bytes of a file of build/bench, by its name
 */
export function makeParts(engines, read) {
  const sessions = new Map();
  const memory = new WebAssembly.Memory({ initial: 64 });
  const tiles = {};

  const openers = {
    ours: async (bytes, options) => engines.requant.InferenceSession.create(bytes, options),
    ort: async (bytes) =>
      engines.ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] }),
  };
  const tensors = { ours: engines.requant.Tensor, ort: engines.ort.Tensor };

  return {
    /**
     * Loads modules of tiles; gives the names of their functions. A name ends in the number of outputs, or in
     * rows x vectors of four.
     */
    async loadTiles(files) {
      for (const file of files) {
        const { instance } = await WebAssembly.instantiate(await read(file), { env: { memory } });
        Object.assign(tiles, instance.exports);
      }
      return Object.keys(tiles).filter((name) => /_\d+(x\d+)?$/.test(name));
    },

    /** Billions of operations per second of a tile that adds up `depth` products. */
    timeTile(name, depth, calls) {
      // Indices below 16 are also bits. Floats are ordinary, because denormal ones would cost tens of cycles
      // each.
      const { a, b, out } = TILE_MEMORY;
      if (name.startsWith('f32')) new Float32Array(memory.buffer, a, 1 << 19).fill(0.75);
      else
        new Uint8Array(memory.buffer, a, 2 << 20).forEach(
          (_, at, all) => (all[at] = (at * 7) & 15),
        );
      const [, rows, vectors] = /_(\d+)(?:x(\d+))?$/.exec(name);
      const outputs = Number(rows) * (vectors === undefined ? 1 : 4 * Number(vectors));
      const start = performance.now();
      for (let call = 0; call < calls; call++) tiles[name](a, b, depth, out);
      return (2 * outputs * depth * calls) / (performance.now() - start) / 1e6;
    },

    /**
     * Opens a session and runs it once; `key` names it.
     * @param form `{ file, engine: 'ours' | 'ort', options, numbers: 'codes' | 'normals' | 'uniform', dims }`
     */
    async open(key, { file, engine = 'ours', options = {}, ...inputs }) {
      const session = await openers[engine](await read(file), options);
      const feeds = feedsOf(tensors[engine], session.inputMetadata, inputs);
      await session.run(feeds);
      sessions.set(key, { session, feeds });
    },
    async output(key) {
      const { session, feeds } = sessions.get(key);
      return [...Object.values(await session.run(feeds))[0].data];
    },
    /** Milliseconds of one run, averaged over `runs`. */
    async time(key, runs) {
      const { session, feeds } = sessions.get(key);
      const start = performance.now();
      for (let at = 0; at < runs; at++) await session.run(feeds);
      return (performance.now() - start) / runs;
    },
    /** Milliseconds of every step in one run, averaged over `runs`, of a session that profiles. */
    async profile(key, runs) {
      const { session, feeds } = sessions.get(key);
      const before = session.profile();
      for (let at = 0; at < runs; at++) await session.run(feeds);
      return session
        .profile()
        .map(({ milliseconds }, step) => (milliseconds - before[step].milliseconds) / runs);
    },
    /** The steps of a session that profiles. */
    steps(key) {
      const { session } = sessions.get(key);
      const { steps } = session.plan();
      return session.profile().map(({ name, op, kernel, macs }, step) => ({
        ...{ name, op, kernel, macs },
        ...{ tuning: steps[step].tuning, dims: steps[step].output?.dims ?? [] },
      }));
    },
    async close(key) {
      await sessions.get(key).session.release();
      sessions.delete(key);
    },
  };
}

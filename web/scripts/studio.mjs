// Builds the studio (demos/studio) into static files, and serves them; the studio imports `requant` as an installed
// package would be.
//
//   node web/scripts/studio.mjs           builds, then serves with the headers of cross-origin isolation
//   node web/scripts/studio.mjs --build   static files in build/site/studio
//   node web/scripts/studio.mjs --dev     a development server, without a service worker

import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { build, createServer, preview } from 'vite';
import { ROOT } from './run.mjs';
import { RESTRICTED, SAMPLES, hasSample, makeSamples, samples } from './studio_samples.mjs';

const SERVICE_WORKER = 'service_worker.js';
const STUDIO = path.join(ROOT, 'demos/studio');
const ORT = path.join(ROOT, 'node_modules/onnxruntime-web/dist');

const isolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

/** Whether the page needs a file before it has a model; the service worker fetches the other files later. */
const isShell = (file) => /\.(html|css|js)$/.test(file) && !file.includes('elk');

/** Whether a file is of another engine, which loads when the user asks for it, and is not kept for offline use. */
const isOther = (file) => /\/(ort|litert)[-_]/.test(file);

/** Writes the names of all files into the service worker, which keeps them for use without a network. */
const offlineFiles = {
  name: 'offline-files',
  generateBundle(_options, bundle) {
    const files = Object.keys(bundle).filter((name) => name !== SERVICE_WORKER);
    const hash = createHash('sha256');
    for (const name of [...files].sort()) {
      const { code, source } = bundle[name];
      hash.update(name).update(code ?? source);
    }
    const worker = bundle[SERVICE_WORKER];
    const lists = {
      version: hash.digest('hex').slice(0, 16),
      shell: [
        './',
        ...readdirSync(path.join(STUDIO, 'public')),
        ...files.filter((file) => isShell(file) && !isOther(file)),
      ],
      later: files.filter((name) => !isShell(name) && !isOther(name)),
    };
    if (!worker.code.includes('OFFLINE_FILES')) this.error('the service worker has no list');
    worker.code = worker.code.replace(/["'`]OFFLINE_FILES["'`]/, () =>
      JSON.stringify(JSON.stringify(lists)),
    );
  },
};

const VIRTUAL = 'virtual:samples';

/** Offers the samples of other packages that are in build/studio_samples. */
const samplesFound = (toPublish) => ({
  name: 'samples-found',
  resolveId: (id) => (id === VIRTUAL ? `\0${VIRTUAL}` : undefined),
  load(id) {
    if (id !== `\0${VIRTUAL}`) return undefined;
    const here = Object.entries(samples).filter(
      ([name]) => hasSample(name) && !(toPublish && RESTRICTED.includes(name)),
    );
    const files = here.flatMap(([, list]) => list);
    const imports = files.map(
      (file, at) => `import file${at} from ${JSON.stringify(`${path.join(SAMPLES, file)}?url`)};`,
    );
    const lists = here.map(
      ([name, list]) => `${name}: [${list.map((file) => `file${files.indexOf(file)}`).join(', ')}]`,
    );
    return `${imports.join('\n')}\nexport const found = { ${lists.join(', ')} };\n`;
  },
});

/**
 * Vite's configuration of the studio; `outDir` is where a build goes, and `toPublish` leaves out samples that not
 * everybody may publish.
 */
export const studioConfig = (outDir = path.join(ROOT, 'build/site/studio'), toPublish = false) => ({
  configFile: false,
  root: STUDIO,
  base: './',
  resolve: {
    alias: [
      // The form whose WebAssembly has an address of its own, for threads and for workers.
      {
        find: /^onnxruntime-web\/wasm$/,
        replacement: path.join(ORT, 'ort.wasm.min.mjs'),
      },
      { find: /^onnxruntime-web\/(ort-wasm.*)$/, replacement: path.join(ORT, '$1') },
      { find: /^requant$/, replacement: path.join(ROOT, 'dist/index.js') },
      { find: /^requant\/(\w+)$/, replacement: path.join(ROOT, 'dist/$1/index.js') },
    ],
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir,
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    chunkSizeWarningLimit: 2000,
    rolldownOptions: {
      input: {
        index: path.join(STUDIO, 'index.html'),
        service_worker: path.join(STUDIO, 'offline/service_worker.ts'),
      },
      output: {
        entryFileNames: ({ name }) =>
          name === 'service_worker' ? SERVICE_WORKER : 'assets/[name]-[hash].js',
      },
    },
  },
  plugins: [offlineFiles, samplesFound(toPublish)],
  worker: { format: 'es' },
  server: { fs: { allow: [ROOT] }, headers: isolation },
  preview: { headers: isolation },
});

if (import.meta.url === `file://${process.argv[1]}`) {
  await makeSamples();
  if (process.argv.includes('--dev')) {
    const server = await createServer(studioConfig());
    await server.listen();
    server.printUrls();
  } else {
    await build(studioConfig());
    if (!process.argv.includes('--build')) (await preview(studioConfig())).printUrls();
  }
}

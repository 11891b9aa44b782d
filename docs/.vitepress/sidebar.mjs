// The order of the pages in the site's sidebar: `[text, page]`, with the page as a path without its ending.

const SECTIONS = [
  {
    text: 'Start',
    pages: [
      ['Five minutes', 'guides/start'],
      ['Samples', 'guides/samples'],
      ['The studio', 'studio'],
    ],
  },
  {
    text: 'Guides',
    pages: [
      ['Which bits', 'guides/which_bits'],
      ['Accuracy fell, what now', 'guides/accuracy'],
      ['From onnxruntime-web', 'migrating'],
      ['Transformers', 'guides/transformers'],
      ['Detection', 'guides/detection'],
      ['Audio', 'guides/audio'],
      ['Training', 'guides/training'],
      ['Microcontrollers, C', 'guides/microcontrollers'],
      ['TFLite files', 'tflite'],
      ['Cold start and caching', 'guides/cold_start'],
      ['Threads and isolation', 'guides/threads'],
      ['Memory', 'guides/memory'],
      ['Workers and edges', 'guides/workers'],
      ['Bundlers', 'bundlers'],
      ['From a CDN', 'guides/cdn'],
      ['The same bits', 'guides/determinism'],
    ],
  },
  {
    text: 'How it works',
    pages: [
      ['Quantization', 'how/quantization'],
      ['The integer convolution', 'how/convolution'],
      ['Requantization', 'how/requantization'],
      ['Winograd in integers', 'how/winograd'],
      ['Bit-serial products', 'how/bit_serial'],
      ['Lookups', 'how/lookups'],
      ['Calibration', 'how/calibration'],
      ['Recovery', 'how/recovery'],
      ['Quantization-aware training', 'how/training'],
      ['Architecture', 'architecture'],
    ],
  },
  {
    text: 'In depth',
    pages: [
      ['API, by theme', 'api'],
      ['Quantization', 'quantization'],
      ['The optimizer', 'optimizer'],
      ['The command line', 'cli'],
    ],
  },
  {
    text: 'Reference',
    pages: [
      ['Every export', 'reference/api/index'],
      ['requant', 'reference/api/requant/index'],
      ['requant/dataset', 'reference/api/dataset/index'],
      ['requant/dataset/node', 'reference/api/dataset/node/index'],
      ['requant/generate', 'reference/api/generate/index'],
      ['requant/report', 'reference/api/report/index'],
      ['Commands', 'reference/commands'],
      ['Operators', 'reference/operators'],
      ['Passes', 'reference/passes'],
      ['Kernels', 'reference/kernels'],
      ['Recovery methods', 'reference/recovery'],
    ],
  },
  {
    text: 'Evidence',
    pages: [
      ['Benchmarks', 'benchmarks'],
      ['Browsers', 'browsers'],
      ['Conformance', 'conformance'],
      ['Systems', 'systems'],
    ],
  },
  {
    text: 'The project',
    pages: [
      ['Changes', 'changelog'],
      ['Versions', 'versions'],
      ['Security', 'security'],
      ['Demos', 'demos'],
      ['Contributing', 'contributing'],
      ['Lexicon', 'lexicon'],
      ['The core', 'code/src'],
      ['The bindings', 'code/bindings'],
      ['The package', 'code/web'],
      ['The tests', 'code/tests'],
    ],
  },
];

/** All pages of the sidebar, as paths without their ending. */
export const sidebarPages = () => SECTIONS.flatMap(({ pages }) => pages.map(([, page]) => page));

/** The sidebar of all pages. */
export const sidebar = () =>
  SECTIONS.map(({ text, pages }) => ({
    text,
    items: pages.map(([title, page]) => ({ text: title, link: `/${page}` })),
  }));

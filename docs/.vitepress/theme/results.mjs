// Reads groups of measurements for the charts from tests/bench/results.json, each with networks and contenders.

const NAMES = {
  resnet18: 'ResNet-18',
  resnet50: 'ResNet-50',
  mobilenet_v2: 'MobileNetV2',
  resnet20: 'ResNet-20',
};

const CONTENDERS = [
  ['float', 'float', 'float'],
  ['int8', '8 bits', 'own'],
  ['int8, 7-bit weights', '8 bits, 7-bit weights', 'own'],
  ['int8, same file', '8 bits, the same file', 'own'],
  ['w4a4', 'W4A4', 'own'],
  ['w2a2', 'W2A2', 'own'],
  ['w1a1', 'W1A1', 'own'],
  ['ort float', 'onnxruntime-web, float', 'other'],
  ['ort int8', 'onnxruntime-web, 8 bits', 'other'],
  ['LiteRT float', 'LiteRT.js, float', 'other'],
  ['LiteRT int8', 'LiteRT.js, 8 bits', 'other'],
];

const PLACES = {
  latency: 'Node',
  'latency-without-vnni': 'Node, without AVX-VNNI',
  chromium: 'Chromium',
};

/** The bars of a network: name, kind, and the median, least and greatest milliseconds. */
function barsOf({ times, ortInt8 }) {
  return CONTENDERS.flatMap(([key, name, kind]) => {
    const of = key === 'ort int8' ? times[ortInt8] : times[key];
    return of ? [{ name, kind, value: of.median, least: of.min, most: of.max }] : [];
  });
}

/** The charts of a file of results: `{ title, unit, choices: [{ name, bars }] }` by their keys. */
export function chartsOf({ parts }) {
  const charts = {};
  for (const [key, place] of Object.entries(PLACES)) {
    const result = parts[key]?.result;
    if (!result) continue;
    charts[key] = {
      title: `Milliseconds of a run, ${place}`,
      unit: 'ms',
      choices: result.networks.map((network) => ({
        name: NAMES[network.network] ?? network.network,
        bars: barsOf(network),
      })),
    };
  }
  const threads = parts.threads?.result;
  if (threads) {
    charts.threads = {
      title: 'Milliseconds of a run by threads',
      unit: 'ms',
      choices: Object.entries(threads.networks).map(([network, forms]) => ({
        name: NAMES[network] ?? network,
        bars: Object.entries(forms).flatMap(([form, { one, more }]) => {
          const title = form === 'int8' ? '8 bits' : form;
          const kind = form === 'int8' ? 'own' : 'float';
          const bar = (name, of) => ({ name, kind, value: of.median, least: of.min, most: of.max });
          return [
            bar(`${title}, one thread`, one),
            bar(`${title}, ${threads.threads} threads`, more),
          ];
        }),
      })),
    };
  }
  const memory = parts.memory?.result;
  if (memory) {
    charts.memory = {
      title: 'Resident memory of a process, 8 bits',
      unit: 'MiB',
      choices: [...new Set(memory.results.map(({ network }) => network))].map((network) => ({
        name: NAMES[network] ?? network,
        bars: memory.results
          .filter((row) => row.network === network)
          .flatMap(({ what, ours, ort }) => {
            const when = what === 'peak' ? 'at most' : 'after 20 runs';
            const bar = (name, kind, of) => ({
              name: `${name}, ${when}`,
              kind,
              value: of.median,
              least: of.min,
              most: of.max,
            });
            return [bar('this package', 'own', ours), bar('onnxruntime-web', 'other', ort)];
          }),
      })),
    };
  }
  return charts;
}

/** A number with three digits. */
export const digits = (value) =>
  value >= 100 ? value.toFixed(0) : Number(value.toPrecision(3)).toString();

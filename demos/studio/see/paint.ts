// Colours of boxes: by kind, error, time, bits or size.

import { formatBytes } from 'requant/report';
import { colourOf } from '../state/theme.js';
import { type AllMeasures, constantBytes } from './measures.js';
import type { Box } from './network.js';

export type Mode = 'kind' | 'error' | 'time' | 'bits' | 'size';

export const modes: readonly { id: Mode; name: string; needsResult: boolean }[] = [
  { id: 'kind', name: 'Kind of operator', needsResult: false },
  { id: 'size', name: 'Size of weights', needsResult: false },
  { id: 'error', name: 'Error', needsResult: true },
  { id: 'time', name: 'Time', needsResult: true },
  { id: 'bits', name: 'Bits', needsResult: true },
];

/** A colour and how much of it covers the box. */
export interface Paint {
  colour: string;
  share: number;
}

export interface Legend {
  colour: string;
  share: number;
  text: string;
}

const kinds: readonly { text: string; colour: string; matches: RegExp }[] = [
  { text: 'Layers', colour: '--accent', matches: /Conv|Gemm|MatMul|LSTM|GRU|^RNN|Einsum/ },
  {
    text: 'Activations',
    colour: '--warm',
    matches: /Relu|Sigmoid|Tanh|Elu|Clip|Swish|Softmax|Softplus|Gelu|Mish|Erf/i,
  },
  { text: 'Norms and pools', colour: '--good', matches: /Norm|Pool|Reduce|Mean/ },
  {
    text: 'Arithmetic',
    colour: '--bad',
    matches:
      /^(Add|Sub|Mul|Div|Pow|Sqrt|Exp|Log|Neg|Abs|Sum|Max|Min|Where|Equal|Less|Greater|And|Or|Not)/,
  },
  { text: 'Moves', colour: '--muted', matches: /./ },
];

/** dB at and below which the error counts as large, and from which on as none. */
const [BAD_DB, GOOD_DB] = [12, 45];

const bitColours = { 32: '--muted', 8: '--accent', 4: '--warm', 2: '--bad' } as const;

/** Good, middling and bad, as red, green and blue. */
function rainbow(): (value: number) => Paint {
  const stops = ['--good', '--warm', '--bad'].map((name) =>
    colourOf(name)
      .match(/[\d.]+/g)!
      .map(Number),
  );
  return (value) => {
    const at = Math.min(0.999, Math.max(0, value)) * (stops.length - 1);
    const [from, to] = [stops[Math.floor(at)]!, stops[Math.floor(at) + 1]!];
    const mixed = [0, 1, 2].map((one) =>
      Math.round(from[one]! + (to[one]! - from[one]!) * (at % 1)),
    );
    return { colour: `rgb(${mixed.join(' ')})`, share: 0.28 + 0.22 * value };
  };
}

/** The painter of a mode, and its legend. */
export function painterOf(
  mode: Mode,
  boxes: readonly Box[],
  measures: AllMeasures,
): { paint(box: Box): Paint; legend: Legend[] } {
  const none: Paint = { colour: colourOf('--line'), share: 0.3 };
  const warm = colourOf('--warm');
  const errors = rainbow();
  const scale = (text: [string, string]): Legend[] => [
    { colour: warm, share: 0.08, text: text[0] },
    { colour: warm, share: 0.5, text: text[1] },
  ];
  if (mode === 'kind') {
    const coloured = kinds.map((kind) => ({ ...kind, colour: colourOf(kind.colour) }));
    const used = new Set<string>();
    const of = ({ node }: Box) => coloured.find(({ matches }) => matches.test(node!.op))!;
    for (const box of boxes) if (box.node) used.add(of(box).text);
    return {
      paint: (box) => (box.node ? { colour: of(box).colour, share: 0.22 } : none),
      legend: coloured
        .filter(({ text }) => used.has(text))
        .map(({ text, colour }) => ({ text, colour, share: 0.22 })),
    };
  }
  if (mode === 'bits') {
    const colours = new Map(
      Object.entries(bitColours).map(([bits, name]) => [Number(bits), colourOf(name)]),
    );
    const bits = (box: Box) => box.node && measures.get(box.node.name).bits;
    const used = new Set(boxes.map(bits));
    return {
      paint: (box) => {
        const own = bits(box);
        return own === undefined ? none : { colour: colours.get(own)!, share: 0.3 };
      },
      legend: [8, 4, 2, 32]
        .filter((width) => used.has(width as 8))
        .map((width) => ({
          colour: colours.get(width)!,
          share: 0.3,
          text: width === 32 ? 'Float' : `${width} bits`,
        })),
    };
  }
  const valueOf = (box: Box): number | undefined => {
    if (!box.node) return undefined;
    if (mode === 'size') return constantBytes(box.node);
    const { layer, ms } = measures.get(box.node.name);
    if (mode === 'time') return ms;
    if (!layer) return undefined;
    return layer.snr === null ? 0 : Math.max(0, GOOD_DB - layer.snr) / (GOOD_DB - BAD_DB);
  };
  const most = mode === 'error' ? 1 : Math.max(1e-9, ...boxes.map((box) => valueOf(box) ?? 0));
  const legend =
    mode === 'error'
      ? [
          { ...errors(0), text: `${GOOD_DB} dB and more` },
          { ...errors(0.5), text: `${(GOOD_DB + BAD_DB) / 2} dB` },
          { ...errors(1), text: `${BAD_DB} dB and less` },
        ]
      : mode === 'time'
        ? scale(['0 ms', `${most.toFixed(3)} ms`])
        : scale(['0 B', formatBytes(most)]);
  return {
    paint: (box) => {
      const value = valueOf(box);
      if (value === undefined) return none;
      if (mode === 'error') return errors(Math.min(1, value));
      return { colour: warm, share: 0.08 + 0.42 * Math.min(1, value / most) };
    },
    legend,
  };
}

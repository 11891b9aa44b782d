// Everything that the studio knows. Components read these signals; the functions of the other rooms set them.

import { computed, signal } from '@preact/signals';
import type {
  CompareReport,
  ModelInfo,
  NodeDetails,
  QuantizationRecord,
  QuantizeConfig,
} from 'requant';
import type { Samples } from '../bring/samples.js';
import type { Preparation } from '../bring/preparation.js';
import type { Found } from '../engine/detect.js';
import type { Mask, Task } from '../engine/task.js';
import { type RecipeId, configOf, recipeOf } from '../choose/recipes.js';
import type { Job } from '../watch/job.js';
import type { Problem } from '../watch/problems.js';

/** The parts of the page, in the order in which a user goes through them. */
export const rooms = ['bring', 'see', 'choose', 'believe', 'take'] as const;
export type Room = (typeof rooms)[number];

/** A model that the user brought. */
export interface LoadedModel {
  name: string;
  bytes: Blob;
  /** External data files by the names that the model uses. */
  external: Readonly<Record<string, Blob>>;
  info: ModelInfo;
  /** The operators of the file, and those of the optimized graph that is quantized. */
  written: readonly NodeDetails[];
  nodes: readonly NodeDetails[];
}

/** Bits of the weights and activations of a layer; 32 keeps it in float. */
export type Width = 2 | 4 | 8 | 32;

/** One class and its score. */
export interface Score {
  index: number;
  score: number;
}

/** The answers of both networks for one sample. */
export interface Answer {
  /** Index of the sample. */
  sample: number;
  float: readonly Score[];
  quantized: readonly Score[];
  /** The float and the quantized network's boxes, masks, or indices of the nearest samples. */
  boxes?: readonly [readonly Found[], readonly Found[]];
  masks?: readonly [Mask, Mask];
  near?: readonly [readonly number[], readonly number[]];
  /** How alike boxes, masks or neighbours are, from 0 to 1. */
  likeness?: number;
  differs: boolean;
  /** Signal to noise ratio of the first output in dB; null where both are the same. */
  snr: number | null;
  label?: number;
}

/** Milliseconds and kernels by the names of operators. */
export type Times = Readonly<Record<string, { ms: number; kernel: string; op: string }>>;

/** How fast one network runs. */
export interface Speed {
  /** Milliseconds of one run. */
  total: number;
  nodes: Times;
  threads: number;
}

/** Another engine that the page can measure. */
export type OtherName = 'ort' | 'litert';

/** Medians of another engine in milliseconds, or why it has none. */
export interface Other {
  threads: number;
  float: { ms?: number; error?: string };
  quantized: { ms?: number; error?: string };
}

/** The result of a quantization. */
export interface Result {
  recipe: RecipeId;
  config: QuantizeConfig | undefined;
  widths: Readonly<Record<string, Width>>;
  /** Decisions about every operator; undefined where only weights were quantized. */
  record: QuantizationRecord | undefined;
  warnings: readonly string[];
  bytes: number;
  floatBytes: number;
  /** Undefined without samples. */
  report: CompareReport | undefined;
  answers: readonly Answer[];
  task: Task;
  /** The mean likeness of boxes, masks or neighbours over all samples that were compared. */
  likeness: number | undefined;
  /** How many samples chose the scales, and whether the comparison used others. */
  calibrated: number;
  separate: boolean;
  speed: { float: Speed; quantized: Speed } | undefined;
  /** Other engines on the same device, once the user asked for them. */
  others?: Readonly<Partial<Record<OtherName, Other>>>;
  /** How much was quantized: everything, or what depends on the layers whose bits the user changed. */
  made: 'all' | 'decisions kept' | 'layers';
  seconds: number;
}

export const room = signal<Room>('bring');
export const model = signal<LoadedModel | undefined>(undefined);
export const samples = signal<Samples | undefined>(undefined);
export const preparation = signal<Preparation | undefined>(undefined);
export const recipe = signal<RecipeId>('balanced');
/** Layers that the user gave bits of their own. */
export const widths = signal<Readonly<Record<string, Width>>>({});
/** What the user says the network does; undefined: what its outputs suggest. */
export const ownTask = signal<Task | undefined>(undefined);
export const result = signal<Result | undefined>(undefined);
export const job = signal<Job | undefined>(undefined);
export const problem = signal<Problem | undefined>(undefined);
/** The operator that is chosen in the graph. */
export const selected = signal<string | undefined>(undefined);
/** The text that screen readers say. */
export const announcement = signal('');

/** Whether the result is of other settings than the present ones. */
export const stale = computed(() => {
  const now = result.value;
  if (!now) return false;
  if (now.recipe !== recipe.value) return true;
  const { weights, config } = recipeOf(recipe.value);
  const other = weights ? undefined : configOf({ config: config ?? {} }, widths.value);
  return JSON.stringify([now.config, now.widths]) !== JSON.stringify([other, widths.value]);
});

/** Gives a layer bits of its own; without them it follows the recipe. */
export function setWidth(name: string, width?: Width): void {
  const others = Object.entries(widths.value).filter(([one]) => one !== name);
  widths.value = Object.fromEntries(width === undefined ? others : [...others, [name, width]]);
}

/** Goes to a part of the page and moves the focus to its heading. */
export function go(to: Room): void {
  room.value = to;
  const focus = (triesLeft: number) => {
    const heading = document.querySelector<HTMLElement>(`#${to}-title`);
    if (heading) {
      heading.focus({ preventScroll: true });
      window.scrollTo({ top: 0 });
    } else if (triesLeft > 0) {
      setTimeout(() => focus(triesLeft - 1), 50);
    }
  };
  setTimeout(() => focus(40));
}

/** Shows an operator in the graph. */
export function showNode(name: string): void {
  selected.value = name;
  go('see');
}

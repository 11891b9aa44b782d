// Draws the visible part of a graph.

import { colourOf } from '../state/theme.js';
import type { Width } from '../state/store.js';
import type { Box } from './network.js';
import type { Paint } from './paint.js';
import type { Scene } from './scene.js';
import { type View } from './view.js';

/** Below this zoom boxes have no text, and below the next one no round corners. */
const TEXT_ZOOM = 0.32;
const ROUND_ZOOM = 0.15;
const RADIUS = 10;
/** The share of a colour from which on it is strong. */
const STRONG = 0.25;

export interface Look {
  ink: string;
  muted: string;
  card: string;
  line: string;
  accent: string;
  warm: string;
  bad: string;
}

/** The colours of the present theme. */
export function lookOf(): Look {
  const names = {
    ink: '--ink',
    muted: '--muted',
    card: '--card',
    line: '--strong-line',
    accent: '--accent',
    warm: '--warm',
    bad: '--bad',
  };
  return Object.fromEntries(
    Object.entries(names).map(([key, name]) => [key, colourOf(name)]),
  ) as unknown as Look;
}

export interface Drawing {
  scene: Scene;
  view: View;
  look: Look;
  paint(box: Box): Paint;
  /** The text at the right of a box, such as "8". */
  badge(box: Box): string;
  selected: number | undefined;
  /** The box of an operator that failed. */
  failed: number | undefined;
  /** Whether the user gave the operator bits of its own. */
  own(box: Box): Width | undefined;
}

function drawLines(context: CanvasRenderingContext2D, drawing: Drawing): void {
  const { scene, view, look, selected } = drawing;
  const { lines } = scene.layout;
  const near: number[] = [];
  context.beginPath();
  for (const index of scene.linesIn(view.area)) {
    const [from, to] = scene.network.lines[index]!;
    if (selected !== undefined && (from === selected || to === selected)) near.push(index);
    else trace(context, lines[index]!);
  }
  context.strokeStyle = look.line;
  context.lineWidth = Math.max(1.2, 0.7 / view.zoom);
  context.stroke();
  context.beginPath();
  for (const index of near) trace(context, lines[index]!);
  context.strokeStyle = look.accent;
  context.lineWidth = Math.max(2.2, 1.4 / view.zoom);
  context.stroke();
}

/** A line with its corners rounded. */
function trace(context: CanvasRenderingContext2D, points: Float32Array): void {
  const count = points.length / 2;
  if (count < 2) return;
  context.moveTo(points[0]!, points[1]!);
  for (let at = 1; at < count - 1; at++) {
    const [x, y] = [points[2 * at]!, points[2 * at + 1]!];
    const nextX = at === count - 2 ? points[2 * count - 2]! : (x + points[2 * at + 2]!) / 2;
    const nextY = at === count - 2 ? points[2 * count - 1]! : (y + points[2 * at + 3]!) / 2;
    context.quadraticCurveTo(x, y, nextX, nextY);
  }
  if (count === 2) context.lineTo(points[2]!, points[3]!);
}

/** The text, shortened to fit. */
function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}

function drawText(context: CanvasRenderingContext2D, drawing: Drawing, id: number): void {
  const { scene, look } = drawing;
  const box = scene.box(id);
  const { x, y, width, height } = scene.placed(id);
  const badge = drawing.badge(box);
  context.textBaseline = 'middle';
  const room = width - 24 - (badge ? 26 : 0);
  context.fillStyle = look.ink;
  context.textAlign = 'left';
  if (!box.node) {
    context.font = '500 13px system-ui, sans-serif';
    context.fillText(
      fitted(context, `${box.title} ${box.subtitle}`, width - 24),
      x + 12,
      y + height / 2,
    );
    return;
  }
  context.font = '600 14px system-ui, sans-serif';
  context.fillText(fitted(context, box.title, room), x + 12, y + 17);
  context.font = '12px system-ui, sans-serif';
  // Grey cannot be read on strong colours.
  const quiet = drawing.paint(box).share > STRONG ? look.ink : look.muted;
  context.fillStyle = quiet;
  context.fillText(fitted(context, box.subtitle, room), x + 12, y + 34);
  if (!badge) return;
  context.textAlign = 'right';
  context.font = '600 13px system-ui, sans-serif';
  context.fillStyle = drawing.own(box) === undefined ? quiet : look.accent;
  context.fillText(badge, x + width - 12, y + height / 2);
}

function drawBoxes(context: CanvasRenderingContext2D, drawing: Drawing): void {
  const { scene, view, look, selected, failed } = drawing;
  const visible = scene.boxesIn(view.area);
  const round = view.zoom >= ROUND_ZOOM;
  const outline = (id: number) => {
    const { x, y, width, height } = scene.placed(id);
    context.beginPath();
    if (round) context.roundRect(x, y, width, height, RADIUS);
    else context.rect(x, y, width, height);
  };
  for (const id of visible) {
    const box = scene.box(id);
    const { colour, share } = drawing.paint(box);
    outline(id);
    context.fillStyle = look.card;
    context.fill();
    context.globalAlpha = round ? share : Math.min(1, share + 0.35);
    context.fillStyle = colour;
    context.fill();
    context.globalAlpha = 1;
    if (!round) continue;
    context.strokeStyle = id === failed ? look.bad : id === selected ? look.accent : look.line;
    context.lineWidth = id === selected || id === failed ? Math.max(2.5, 2 / view.zoom) : 1;
    if (drawing.own(box) !== undefined) context.setLineDash([5, 3]);
    context.stroke();
    context.setLineDash([]);
  }
  if (view.zoom < TEXT_ZOOM) return;
  for (const id of visible) drawText(context, drawing, id);
}

/** Draws everything that is visible on a canvas of `view`'s size. */
export function draw(context: CanvasRenderingContext2D, drawing: Drawing): void {
  const { view } = drawing;
  const { zoom, x, y, width, height } = view;
  const ratio = globalThis.devicePixelRatio || 1;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.translate(width / 2, height / 2);
  context.scale(zoom, zoom);
  context.translate(-x, -y);
  drawLines(context, drawing);
  drawBoxes(context, drawing);
}

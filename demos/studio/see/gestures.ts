// Moves the view by pointer, wheel and fingers.

import type { View } from './view.js';

/** Pointers that move less are clicks. */
const CLICK = 5;

/** Listens on a canvas until the returned function is called. */
export function followGestures(
  canvas: HTMLCanvasElement,
  view: View,
  changed: () => void,
  clicked: (x: number, y: number) => void,
): () => void {
  const pointers = new Map<number, { x: number; y: number }>();
  let moved = 0;
  const at = ({ clientX, clientY }: MouseEvent) => {
    const { left, top } = canvas.getBoundingClientRect();
    return { x: clientX - left, y: clientY - top };
  };
  const spread = () => {
    const [a, b] = [...pointers.values()];
    return b ? Math.hypot(a!.x - b.x, a!.y - b.y) : 0;
  };
  const down = (event: PointerEvent) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    moved = pointers.size > 1 ? CLICK + 1 : 0;
  };
  const move = (event: PointerEvent) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = at(event);
    const wide = spread();
    pointers.set(event.pointerId, now);
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (pointers.size === 1) {
      if (moved > CLICK) view.move(now.x - before.x, now.y - before.y);
    } else {
      const [a, b] = [...pointers.values()];
      view.zoomAt(spread() / (wide || 1), (a!.x + b!.x) / 2, (a!.y + b!.y) / 2);
      view.move((now.x - before.x) / 2, (now.y - before.y) / 2);
    }
    changed();
  };
  const up = (event: PointerEvent) => {
    if (!pointers.delete(event.pointerId) || moved > CLICK || event.type !== 'pointerup') return;
    const { x, y } = at(event);
    clicked(x, y);
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const { x, y } = at(event);
    if (event.shiftKey) view.move(-event.deltaY * lines, 0);
    else view.zoomAt(Math.exp((-event.deltaY * lines) / (event.ctrlKey ? 120 : 480)), x, y);
    changed();
  };
  canvas.addEventListener('pointerdown', down);
  canvas.addEventListener('pointermove', move);
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
  canvas.addEventListener('wheel', wheel, { passive: false });
  return () => {
    canvas.removeEventListener('pointerdown', down);
    canvas.removeEventListener('pointermove', move);
    canvas.removeEventListener('pointerup', up);
    canvas.removeEventListener('pointercancel', up);
    canvas.removeEventListener('wheel', wheel);
  };
}

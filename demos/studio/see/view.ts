// The view says by position and zoom which part of the graph is on the screen.

import type { Area } from './scene.js';
import type { Placed } from './layout.js';

const LEAST = 0.02;
const MOST = 2.5;
const MARGIN = 40;
/** Zoom at which names can be read. */
export const READABLE = 0.55;

export class View {
  /** The point of the graph at the middle of the screen. */
  x = 0;
  y = 0;
  zoom = 1;
  /** Size of the screen in CSS pixels. */
  width = 1;
  height = 1;

  /** The visible part of the graph. */
  get area(): Area {
    const { x, y, zoom, width, height } = this;
    const [w, h] = [width / zoom / 2, height / zoom / 2];
    return { left: x - w, right: x + w, top: y - h, bottom: y + h };
  }

  /** The point of the graph under a point of the screen. */
  toGraph(screenX: number, screenY: number): { x: number; y: number } {
    const { left, top } = this.area;
    return { x: left + screenX / this.zoom, y: top + screenY / this.zoom };
  }

  move(byX: number, byY: number): void {
    this.x -= byX / this.zoom;
    this.y -= byY / this.zoom;
  }

  /** Zooms by a factor, with a point of the screen kept where it is. */
  zoomAt(factor: number, screenX = this.width / 2, screenY = this.height / 2): void {
    const before = this.toGraph(screenX, screenY);
    this.zoom = Math.min(MOST, Math.max(LEAST, this.zoom * factor));
    const after = this.toGraph(screenX, screenY);
    this.x += before.x - after.x;
    this.y += before.y - after.y;
  }

  /** Shows the whole graph. */
  fit({ width, height }: { width: number; height: number }): void {
    this.x = width / 2;
    this.y = height / 2;
    const zoom = Math.min(
      (this.width - 2 * MARGIN) / width,
      (this.height - 2 * MARGIN) / height,
      1,
    );
    this.zoom = Math.max(LEAST, zoom);
  }

  /** Shows the beginning of the graph, large enough to read. */
  begin({ width }: { width: number }, top: Placed): void {
    this.zoom = Math.min(1, Math.max(READABLE + 0.2, (this.width - 2 * MARGIN) / width));
    this.x = top.x + top.width / 2;
    this.y = top.y + this.height / this.zoom / 2 - 90 / this.zoom;
  }

  /** Brings a box to the middle unless it can be read where it is. */
  reveal({ x, y, width, height }: Placed): void {
    const { left, right, top, bottom } = this.area;
    const margin = 20 / this.zoom;
    const inside =
      x > left + margin &&
      x + width < right - margin &&
      y > top + 80 / this.zoom &&
      y + height < bottom - margin;
    if (inside && this.zoom >= READABLE) return;
    this.zoom = Math.max(this.zoom, READABLE + 0.2);
    this.x = x + width / 2;
    this.y = y + height / 2;
  }
}

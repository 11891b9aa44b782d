// A laid-out graph, sorted into bands, so that only what is visible is drawn and looked at.

import type { Box, Network } from './network.js';
import type { Layout, Placed } from './layout.js';

const BAND = 400;

/** A part of the graph in its own coordinates. */
export interface Area {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export class Scene {
  readonly #boxes: number[][] = [];
  readonly #lines: number[][] = [];

  constructor(
    readonly network: Network,
    readonly layout: Layout,
  ) {
    const put = (bands: number[][], index: number, top: number, bottom: number) => {
      for (let band = Math.floor(top / BAND); band <= Math.floor(bottom / BAND); band++) {
        (bands[Math.max(0, band)] ??= []).push(index);
      }
    };
    layout.boxes.forEach(({ y, height }, index) => put(this.#boxes, index, y, y + height));
    layout.lines.forEach((points, index) => {
      const ys = points.filter((_, at) => at % 2 === 1);
      if (ys.length > 0) put(this.#lines, index, Math.min(...ys), Math.max(...ys));
    });
  }

  #within(bands: number[][], { top, bottom }: Area): Set<number> {
    const found = new Set<number>();
    const last = Math.min(bands.length - 1, Math.floor(bottom / BAND));
    for (let band = Math.max(0, Math.floor(top / BAND)); band <= last; band++) {
      for (const index of bands[band] ?? []) found.add(index);
    }
    return found;
  }

  /** Ids of the boxes in an area. */
  boxesIn(area: Area): number[] {
    return [...this.#within(this.#boxes, area)].filter((id) => {
      const { x, width } = this.layout.boxes[id]!;
      return x < area.right && x + width > area.left;
    });
  }

  /** Indices of the lines that may be in an area. */
  linesIn(area: Area): Iterable<number> {
    return this.#within(this.#lines, area);
  }

  placed(id: number): Placed {
    return this.layout.boxes[id]!;
  }

  box(id: number): Box {
    return this.network.boxes[id]!;
  }

  /** The box at a point. */
  at(x: number, y: number): number | undefined {
    return this.boxesIn({ left: x, right: x, top: y, bottom: y }).find((id) => {
      const placed = this.placed(id);
      return y >= placed.y && y <= placed.y + placed.height;
    });
  }

  /** The nearest box to the left (-1) or to the right (1) of a box, in its row. */
  beside(id: number, side: -1 | 1): number | undefined {
    const { x, y, height } = this.placed(id);
    const row = { left: -Infinity, right: Infinity, top: y, bottom: y + height };
    const distance = (other: number) => (this.placed(other).x - x) * side;
    return this.boxesIn(row)
      .filter((other) => {
        const { y: top, height: tall } = this.placed(other);
        return distance(other) > 0 && top < y + height && top + tall > y;
      })
      .sort((a, b) => distance(a) - distance(b))[0];
  }
}

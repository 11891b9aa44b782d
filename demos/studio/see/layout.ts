// Positions of boxes and lines, which elkjs computes in a Worker.

import elkApi, {
  type ELK,
  type ELKConstructorArguments,
  type ElkExtendedEdge,
  type ElkNode,
} from 'elkjs/lib/elk-api.js';
import elkWorker from 'elkjs/lib/elk-worker.min.js?url';
import type { Network } from './network.js';

export const WIDTH = 172;
export const HEIGHT = 48;
const TERMINAL_HEIGHT = 34;

export interface Placed {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Positions by the ids of boxes; lines as points, x and y alternating. */
export interface Layout {
  boxes: Placed[];
  lines: Float32Array[];
  width: number;
  height: number;
}

/** From so many boxes on, the order within rows is found by cheaper methods. */
const MANY = 1200;

const options = {
  'elk.algorithm': 'layered',
  'elk.direction': 'DOWN',
  'elk.edgeRouting': 'POLYLINE',
  'elk.layered.spacing.nodeNodeBetweenLayers': '42',
  'elk.spacing.nodeNode': '28',
  'elk.spacing.edgeNode': '22',
  'elk.layered.nodePlacement.strategy': 'BRANDES_KOEPF',
  'elk.layered.nodePlacement.bk.fixedAlignment': 'BALANCED',
};

const cheaper = {
  'elk.layered.thoroughness': '1',
  'elk.layered.crossingMinimization.greedySwitch.type': 'OFF',
  'elk.layered.layering.strategy': 'LONGEST_PATH_SOURCE',
};

// The module is CommonJS, whose default the package's types describe as that of an ECMAScript module.
const Elk = elkApi as unknown as new (options: ELKConstructorArguments) => ELK;

let worker: Worker | undefined;

function pointsOf({ sections }: ElkExtendedEdge): Float32Array {
  const [section] = sections ?? [];
  if (!section) return new Float32Array();
  const points = [section.startPoint, ...(section.bendPoints ?? []), section.endPoint];
  return Float32Array.from(points.flatMap(({ x, y }) => [x, y]));
}

/** Lays a graph out. A later call ends the work of a former one, which then never settles. */
export async function layOut({ boxes, lines }: Network): Promise<Layout> {
  worker?.terminate();
  const elk = new Elk({
    workerFactory: () => (worker = new Worker(elkWorker)),
  });
  const graph: ElkNode = {
    id: 'graph',
    layoutOptions: boxes.length > MANY ? { ...options, ...cheaper } : options,
    children: boxes.map(({ id, node }) => ({
      id: `n${id}`,
      width: WIDTH,
      height: node ? HEIGHT : TERMINAL_HEIGHT,
    })),
    edges: lines.map(([from, to], index) => ({
      id: `e${index}`,
      sources: [`n${from}`],
      targets: [`n${to}`],
    })),
  };
  const done = await elk.layout(graph);
  elk.terminateWorker();
  worker = undefined;
  return {
    boxes: done.children!.map(({ x = 0, y = 0, width = 0, height = 0 }) => ({
      x,
      y,
      width,
      height,
    })),
    lines: (done.edges ?? []).map(pointsOf),
    width: done.width ?? 0,
    height: done.height ?? 0,
  };
}

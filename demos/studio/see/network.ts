// The graph of a model as boxes and lines, without positions.

import type { ModelInfo, NodeDetails } from 'requant';

/** An operator, or an input or output of the model. */
export interface Box {
  id: number;
  /** Name of the operator; undefined for inputs and outputs of the model. */
  node: NodeDetails | undefined;
  title: string;
  subtitle: string;
  makers: number[];
  readers: number[];
}

export interface Network {
  boxes: Box[];
  /** Pairs of ids: from the maker to the reader. */
  lines: [number, number][];
  /** Ids by the names of operators. */
  ids: ReadonlyMap<string, number>;
}

/** The end of a name such as "/block1/conv1/conv1.0/Conv", without the operator that it repeats. */
export function shortName(name: string, op: string): string {
  const parts = name.split(/[/\\]/).filter(Boolean);
  const last = parts.at(-1) ?? name;
  return last.startsWith(op) && parts.length > 1 ? parts.at(-2)! : last;
}

/** The graph of operators, with a box for each input and output of the model. */
export function networkOf({ inputs, outputs }: ModelInfo, nodes: readonly NodeDetails[]): Network {
  const boxes: Box[] = [];
  const lines: [number, number][] = [];
  const add = (title: string, subtitle: string, node?: NodeDetails) => {
    boxes.push({ id: boxes.length, node, title, subtitle, makers: [], readers: [] });
    return boxes.length - 1;
  };
  const makers = new Map<string, number>();
  for (const { name } of inputs) makers.set(name, add('input', name));
  const ids = new Map<string, number>();
  const own = nodes.map((node) => {
    const id = add(node.op, shortName(node.name, node.op), node);
    ids.set(node.name, id);
    for (const name of node.outputs) if (name !== '') makers.set(name, id);
    return id;
  });
  const connect = (name: string, reader: number) => {
    const maker = makers.get(name);
    if (maker === undefined || boxes[reader]!.makers.includes(maker)) return;
    lines.push([maker, reader]);
    boxes[reader]!.makers.push(maker);
    boxes[maker]!.readers.push(reader);
  };
  nodes.forEach((node, index) => node.inputs.forEach((name) => connect(name, own[index]!)));
  for (const { name } of outputs) connect(name, add('output', name));
  return { boxes, lines, ids };
}

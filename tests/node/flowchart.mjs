// Checks Mermaid flowcharts in the documents, in the part of the language that they use.

const NODE = /^(\w+)(\["[^"]+"\]|\(\["[^"]+"\]\)|\{"[^"]+"\})?/;
const EDGE = /^ (?:-->|-\.->|---)(?:\|"[^"]+"\|)? /;

/** The nodes of a line, `{ name, shown }`, or undefined if it is no chain of nodes and edges. */
function nodesOf(line) {
  const nodes = [];
  for (let rest = line; ;) {
    const node = NODE.exec(rest);
    if (!node) return undefined;
    nodes.push({ name: node[1], shown: node[2] !== undefined });
    rest = rest.slice(node[0].length);
    if (rest === '') return nodes;
    const edge = EDGE.exec(rest);
    if (!edge) return undefined;
    rest = rest.slice(edge[0].length);
  }
}

/**
 * The problem of a flowchart: a line of another form, a group without an end, a name that no node has.
 * Undefined if there is none.
 */
export function flowchartProblem({ code }) {
  const [first, ...lines] = code.trim().split('\n');
  if (!/^flowchart (TD|LR)$/.test(first)) return `"${first}" begins no flowchart`;
  const shown = new Set();
  const used = new Set();
  let depth = 0;
  for (const line of lines.map((one) => one.trim())) {
    const group = /^subgraph (\w+)\["[^"]+"\]$/.exec(line);
    if (group) {
      shown.add(group[1]);
      depth++;
    } else if (line === 'end') {
      if (--depth < 0) return 'an end without a group';
    } else if (!/^direction (TD|LR)$/.test(line)) {
      const nodes = nodesOf(line);
      if (!nodes) return `"${line}" is no line of a flowchart`;
      for (const { name, shown: here } of nodes) (here ? shown : used).add(name);
    }
  }
  if (depth > 0) return 'a group without an end';
  const unknown = [...used].find((name) => !shown.has(name));
  return unknown && `no node shows ${unknown}`;
}

// Draws the flowcharts of the documents: Mermaid's language, as far as tests/node/flowchart.mjs allows it, laid out
// by elkjs. Colors are classes, which the site's style sheet defines for light and dark pages.

import ELK from 'elkjs/lib/elk.bundled.js';

const elk = new ELK();

const LETTER = 7.1;
const LINE = 18;
const NODE = /^(\w+)(?:\["([^"]+)"\]|\(\["([^"]+)"\]\)|\{"([^"]+)"\})?/;
const EDGE = /^ (-->|-\.->|---)(?:\|"([^"]+)"\|)? /;

const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
const MOST = 24;

/** The lines of a text: where it says so, and so that none is longer than MOST letters. */
function linesOf(text) {
  const lines = [];
  for (const part of text.split('<br>')) {
    let line = '';
    for (const word of part.split(' ')) {
      if (line && line.length + word.length >= MOST) {
        lines.push(line);
        line = word;
      } else line += line ? ` ${word}` : word;
    }
    lines.push(line);
  }
  return lines;
}
const sizeOf = (text) => ({
  width: Math.max(...linesOf(text).map((line) => line.length)) * LETTER,
  height: linesOf(text).length * LINE,
});

/** The nodes and edges of a flowchart. */
function parse([first, ...lines]) {
  const nodes = new Map();
  const edges = [];
  for (const line of lines.map((one) => one.trim()).filter(Boolean)) {
    let before;
    for (let rest = line; ;) {
      const node = NODE.exec(rest);
      if (!node) throw new Error(`"${line}" is no line of a flowchart that the site draws`);
      const text = node[2] ?? node[3] ?? node[4];
      if (text !== undefined) nodes.set(node[1], { text, round: node[3] !== undefined });
      if (before) edges.push({ ...before, to: node[1] });
      rest = rest.slice(node[0].length);
      if (rest === '') break;
      const edge = EDGE.exec(rest);
      if (!edge) throw new Error(`"${line}" is no line of a flowchart that the site draws`);
      before = { from: node[1], dashed: edge[1] === '-.->', text: edge[2] };
      rest = rest.slice(edge[0].length);
    }
  }
  return { direction: /LR/.test(first) ? 'RIGHT' : 'DOWN', nodes, edges };
}

function texts(text, x, y, kind) {
  return linesOf(text)
    .map(
      (line, at) =>
        `<text class="${kind}" x="${x.toFixed(1)}" y="${(y + at * LINE + 13).toFixed(1)}" text-anchor="middle">${escape(line)}</text>`,
    )
    .join('');
}

function edgeSvg({ sections = [], labels = [] }, dashed) {
  const paths = sections.map(({ startPoint, endPoint, bendPoints = [] }) => {
    const points = [startPoint, ...bendPoints, endPoint];
    const d = points.map(({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`).join('L');
    return `<path class="line${dashed ? ' dashed' : ''}" d="M${d}" marker-end="url(#arrow)"/>`;
  });
  const words = labels.map(({ text, x, y, width }) => texts(text, x + width / 2, y, 'small'));
  return [...paths, ...words].join('');
}

/** The drawing of a flowchart, one line of SVG. */
export async function flowchartSvg(lines) {
  const { direction, nodes, edges } = parse(lines);
  const layout = await elk.layout({
    id: 'chart',
    layoutOptions: {
      'elk.algorithm': 'layered',
      'elk.direction': direction,
      'elk.layered.spacing.nodeNodeBetweenLayers': '36',
      'elk.spacing.nodeNode': '28',
      'elk.spacing.edgeLabel': '6',
      'elk.edgeRouting': 'POLYLINE',
      'elk.padding': '[top=8,left=8,bottom=8,right=8]',
    },
    children: [...nodes].map(([id, { text }]) => {
      const { width, height } = sizeOf(text);
      return { id, width: width + 28, height: height + 18 };
    }),
    edges: edges.map(({ from, to, text }, at) => ({
      id: `edge${at}`,
      sources: [from],
      targets: [to],
      labels: text ? [{ text, ...sizeOf(text) }] : [],
    })),
  });
  const boxes = layout.children.map(({ id, x, y, width, height }) => {
    const { text, round } = nodes.get(id);
    return `<rect class="box" x="${x}" y="${y}" width="${width}" height="${height}" rx="${round ? 16 : 4}"/>${texts(text, x + width / 2, y + 9, 'word')}`;
  });
  const lead = edges.map(({ from, to }) => `${nodes.get(from).text} to ${nodes.get(to).text}`);
  const name = `Flowchart: ${lead.join('; ')}`.replaceAll('<br>', ' ').replaceAll('"', '&quot;');
  const arrow =
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path class="head" d="M0 0L8 4L0 8Z"/></marker></defs>';
  const size = `${Math.ceil(layout.width)} ${Math.ceil(layout.height)}`;
  return `<svg role="img" aria-label="${name}" viewBox="0 0 ${size}" width="${Math.ceil(layout.width)}">${arrow}${layout.edges.map((edge, at) => edgeSvg(edge, edges[at].dashed)).join('')}${boxes.join('')}</svg>`;
}

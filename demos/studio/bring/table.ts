// Tables of numbers as samples: a row of a CSV file is one.

import type { ModelInfo, Tensor } from 'requant';
import { StudioError } from '../watch/problems.js';
import type { GivenFile } from './files.js';
import type { Samples } from './samples.js';

const LABEL = /^(label|class|target|y|category)$/i;

/** The cells of a line; quotes may hold separators, and two of them are one (RFC 4180). */
export function cellsOf(line: string, separator: string): string[] {
  const cells: string[] = [];
  let cell = '';
  let quoted = false;
  for (let at = 0; at < line.length; at++) {
    const char = line[at]!;
    if (quoted && char === '"' && line[at + 1] === '"') {
      cell += '"';
      at += 1;
    } else if (char === '"') quoted = !quoted;
    else if (char === separator && !quoted) {
      cells.push(cell.trim());
      cell = '';
    } else cell += char;
  }
  return [...cells, cell.trim()];
}

/** Rows of a table, its names of columns if it has any. */
export function parseTable(text: string): { names: string[]; rows: string[][] } {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '');
  const [first = ''] = lines;
  const count = (separator: string) => first.split(separator).length;
  const separator = [',', ';', '\t'].sort((a, b) => count(b) - count(a))[0]!;
  const rows = lines.map((line) => cellsOf(line, separator));
  const [head = []] = rows;
  const isHead = head.some((cell) => cell !== '' && !Number.isFinite(Number(cell)));
  const isLabelled = rows.length > 1 && rows[1]!.some((cell) => !Number.isFinite(Number(cell)));
  // Names of classes in every row are no names of columns.
  const named = isHead && (!isLabelled || head.some((cell) => LABEL.test(cell)));
  return { names: named ? head : [], rows: named ? rows.slice(1) : rows };
}

/** Samples of a CSV file. Throws StudioError for one whose columns do not fit the input. */
export async function fromTable(
  { path, file }: GivenFile,
  { inputs }: ModelInfo,
): Promise<Samples> {
  const [input] = inputs;
  const { names, rows } = parseTable(await file.text());
  const width = rows[0]?.length ?? 0;
  const shape = input!.dims.map((dim, axis) => (typeof dim === 'number' && axis > 0 ? dim : 1));
  const size = shape.reduce((product, dim) => product * dim, 1);
  const refuse = (why: string) =>
    new StudioError(
      'The table does not fit this model.',
      `${path}: ${why}`,
      `A row needs ${size} numbers, and may have one more column with the class`,
    );
  if (inputs.length !== 1) throw refuse(`the model has ${inputs.length} inputs`);
  const found = names.findIndex((name) => LABEL.test(name));
  const labelAt = found >= 0 ? found : width === size + 1 ? width - 1 : -1;
  const labels = labelAt < 0 ? undefined : rows.map((row) => row[labelAt] ?? '');
  const numbers = rows.map((row) => row.filter((_, at) => at !== labelAt).map(Number));
  const bad = numbers.findIndex((row) => row.length !== size || !row.every(Number.isFinite));
  if (rows.length === 0) throw refuse('it is empty');
  if (bad >= 0)
    throw refuse(`row ${bad + 1} has ${numbers[bad]!.length} cells that are numbers or not`);
  const { Tensor: Made } = await import('requant');
  const kinds = [...new Set(labels)].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  const areIndices = kinds.every((kind) => /^\d+$/.test(kind));
  const wide = input!.type === 'int64';
  return {
    kind: 'arrays',
    title: `${rows.length} rows of ${path.split('/').at(-1)}`,
    count: rows.length,
    nameOf: (index) => `row ${index + 1}`,
    ...(labels
      ? {
          labels: labels.map((label) => (areIndices ? Number(label) : kinds.indexOf(label))),
          ...(areIndices ? {} : { classes: kinds }),
        }
      : {}),
    feeds: (index) => {
      const values = numbers[index]!;
      const data = wide ? values.map((value) => BigInt(Math.round(value))) : values;
      return Promise.resolve({ [input!.name]: new Made(input!.type, data, shape) as Tensor });
    },
  };
}

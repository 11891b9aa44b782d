// The pages of the reference, made of the code: the API of its types and comments (TypeDoc), the commands of their
// help, and operators, passes, kernels and recovery methods of the tables that the engine itself uses.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from '../run.mjs';
import { writeApi } from './api.mjs';

const load = (file) => import(path.join(ROOT, 'dist', file));
const cell = (text) => text.replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll('\n', ' ');
const code = (text) => `\`${text.replaceAll('|', '\\|')}\``;
const table = (header, rows) =>
  [header, header.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

async function commandPage() {
  const { commands } = await load('cli/run.js');
  const { commandHelp } = await load('cli/args.js');
  const section = ({ spec }) => `## ${spec.name}\n\n\`\`\`text\n${commandHelp(spec)}\n\`\`\`\n`;
  return `# Commands

This is the help of every command, as \`npx requant COMMAND --help\` prints it. [The command line](../cli.md) explains
the commands with examples.

${commands.map(section).join('\n')}`;
}

/** The words for the rules of quantization (`QuantRule` in src/ops/op.h). */
const RULES = {
  weighted: 'integers: a scale for each output channel of the weights, biases of 32 bits',
  arithmetic: 'integers: operands are rescaled to the result',
  average: 'integers: sums of codes',
  concat: 'integers: all operands have the scale of the result',
  table: 'integers: a table of 256 entries',
  passive: 'moves or selects codes',
  shape: 'gives shapes or indices, which are never quantized',
  float: 'stays in float, or is an integer operator itself',
};

/** The words for a rule of quantization. */
function ruleOf(rule) {
  if (!RULES[rule]) throw new Error(`the page of operators has no words for the rule ${rule}`);
  return RULES[rule];
}

function operatorPage({ operators }) {
  const domains = [...new Set(operators.map(({ domain }) => domain))];
  const section = (domain) => {
    const rows = operators
      .filter((operator) => operator.domain === domain)
      .sort((a, b) => a.name.localeCompare(b.name))
      .map(({ name, since, quantize }) => [code(name), `${since}`, cell(ruleOf(quantize))]);
    return `## ${domain === '' ? 'ONNX' : domain}\n\n${table(['Operator', 'Since opset', 'In a quantized model'], rows)}\n`;
  };
  return `# Operators

The engine has these ${operators.length} operators. This is the table by which it reads files
(\`engineInfo().operators\`); [conformance](../conformance.md) says how it does on ONNX's test data, and
[TFLite files](../tflite.md) which operators of that format run.

${domains.map(section).join('\n')}`;
}

function passPage({ passes }) {
  const rows = passes.map(({ name, summary, bound, optional }) => [
    code(name),
    optional ? 'by name' : 'default',
    bound === 0 ? 'exact' : `${bound}`,
    cell(summary),
  ]);
  return `# Passes

The optimizer runs these ${passes.length} passes in this order (\`requant optimize --list\`). The bound is the largest
error of an output relative to the largest value of the graph; exact passes keep every bit.
[The optimizer](../optimizer.md) explains them.

${table(['Pass', 'Runs', 'Bound', 'What it does'], rows)}
`;
}

function kernelPage({ kernels }) {
  const families = [...new Set(kernels.map(({ family }) => family))];
  const section = (family) => {
    const rows = kernels
      .filter((kernel) => kernel.family === family)
      .map(({ name, isa }) => [code(name), isa]);
    return `## ${family}\n\n${table(['Kernel', 'Instructions'], rows)}\n`;
  };
  return `# Kernels

All kernels of a family compute the same bits. The planner takes the last one of the table that can run the step and is
preferred for its shape; \`tune()\` measures, and the option \`kernels\` forces one. There are ${kernels.length} kernels
in ${families.length} families.

${families.map(section).join('\n')}`;
}

const STAGES = {
  Graphwise: 'rewrites the graph',
  Measured: 'measures values, then rewrites the graph',
  Rounding: "makes a layer's integers",
  Correcting: "makes a layer's integers",
  Choosing: 'chooses what stays in float',
  Learning: 'learns',
};

/** The rows of src/quant/recover/table.cpp: name and stage. */
function recoveryRows() {
  const text = readFileSync(path.join(ROOT, 'src/quant/recover/table.cpp'), 'utf8');
  const body = /kRecoveries\[\] = \{([^]*?)\n\};/.exec(text)[1];
  return [...body.matchAll(/^ *(\w+)\("(\w+)", /gm)].map(([, stage, name]) => ({
    name,
    stage: STAGES[stage],
  }));
}

/** What docs/quantization.md says of each recovery method. */
function methodsInWords() {
  const text = readFileSync(path.join(ROOT, 'docs/quantization.md'), 'utf8');
  const words = new Map();
  for (const [, name, known, what] of text.matchAll(/^\| `(\w+)` +\| (.*?) +\| (.*?) +\|$/gm)) {
    words.set(name, { known, what });
  }
  return words;
}

async function recoveryPage() {
  const words = methodsInWords();
  const { quantizeOptions } = await load('quantize/config.js');
  const rows = recoveryRows().map(({ name, stage }) => {
    const { known, what } = words.get(name) ?? {};
    if (!what) throw new Error(`docs/quantization.md has no row of ${name}`);
    if (!quantizeOptions.recover.of.includes(name)) throw new Error(`recover takes no ${name}`);
    return [code(name), known, stage, what];
  });
  return `# Recovery methods

The option \`recover\` of \`quantize()\` takes these names. Methods run in the order of this table, which is that of
the core's (\`src/quant/recover/table.cpp\`). [Quantization](../quantization.md#recovery-methods) explains them, and
[how recovery works](../how/recovery.md) shows one.

${table(['Method', 'Known as', 'Stage', 'What it does'], rows)}
`;
}

/** The texts of the pages that tables of the code make, by the names of their files. */
export async function referencePages() {
  const { engineInfo } = await load('index.js');
  const info = await engineInfo();
  return {
    'commands.md': await commandPage(),
    'operators.md': operatorPage(info),
    'passes.md': passPage(info),
    'kernels.md': kernelPage(info),
    'recovery.md': await recoveryPage(),
  };
}

/** Writes the pages of the reference into a folder. */
export async function writeReference(folder) {
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(await referencePages()))
    writeFileSync(path.join(folder, name), text);
  writeApi(path.join(folder, 'api'));
}

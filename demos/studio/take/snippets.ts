// Code that runs and makes the model elsewhere.

import type { ModelInfo } from 'requant';
import { type Recipe } from '../choose/recipes.js';
import type { Result } from '../state/store.js';

export interface Snippet {
  id: string;
  name: string;
  code: string;
}

/** The program that runs the file. */
function running(file: string, { inputs, outputs }: ModelInfo, from: string, how: string): string {
  const shape = (dims: ModelInfo['inputs'][number]['dims']) =>
    `[${dims.map((dim) => (typeof dim === 'number' ? dim : 1)).join(', ')}]`;
  const feeds = inputs.map(({ name, type, dims }) => {
    const key = JSON.stringify(name);
    return `  ${key}: new Tensor('${type}', numbers, ${shape(dims)}),`;
  });
  const output = JSON.stringify(outputs[0]?.name ?? '');
  return [
    `import { InferenceSession, Tensor } from '${from}';`,
    ...(how ? [how] : []),
    '',
    `const session = await InferenceSession.create('${file}');`,
    'const outputs = await session.run({',
    ...feeds,
    '});',
    `console.log(outputs[${output}].data);`,
  ].join('\n');
}

function making({ config }: Result, { weights, epochs }: Recipe): string {
  const lines = [
    `import { loadModel, ${weights ? 'quantizeWeights' : 'quantize'} } from 'requant';`,
  ];
  lines.push('', `const model = await loadModel('model.onnx');`);
  if (weights) {
    lines.push(
      `const small = await quantizeWeights(model, ${JSON.stringify(weights)});`,
      `await small.save('model.small.onnx');`,
    );
    return lines.join('\n');
  }
  const text = JSON.stringify(config, null, 2).split('\n').join('\n  ');
  lines.push(
    'const quantized = await quantize(model, {',
    '  calibration: samples, // an iterable of inputs: { name: Tensor }',
    `  config: ${text},`,
    '});',
  );
  if (epochs) lines.push(`// then: train(quantized, { dataset, epochs: ${epochs} })`);
  lines.push(`await quantized.save('model.int8.onnx', { format: 'qdq' });`);
  return lines.join('\n');
}

/** Code for a page with a bundler, a page without one, and Node. */
export function snippetsOf(
  file: string,
  info: ModelInfo,
  result: Result,
  recipe: Recipe,
): Snippet[] {
  return [
    {
      id: 'npm',
      name: 'npm',
      code: `// npm install requant\n${running(file, info, 'requant', '')}`,
    },
    {
      id: 'cdn',
      name: 'CDN',
      code: [
        '<script type="module">',
        running(file, info, 'https://cdn.jsdelivr.net/npm/requant/dist/index.js', ''),
        '</script>',
      ].join('\n'),
    },
    {
      id: 'node',
      name: 'Node',
      code: `// node --experimental-wasm-relaxed-simd run.mjs (no flag from Node 22 on)\n${running(file, info, 'requant', '')}`,
    },
    { id: 'make', name: 'Make it again', code: making(result, recipe) },
  ];
}

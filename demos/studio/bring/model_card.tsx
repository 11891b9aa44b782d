// Shows the model's size, inputs, outputs and operators.

import { formatBytes } from 'requant/report';
import type { ValueInfo } from 'requant';
import { Icon } from '../icon.js';
import { type LoadedModel, go } from '../state/store.js';
import { FileButton } from './bring.js';

const shapeOf = ({ type, dims }: ValueInfo) =>
  `${type} [${dims.map((dim) => dim ?? '?').join(', ')}]`;

function countsOf({ nodes }: LoadedModel): [string, number][] {
  const counts = new Map<string, number>();
  for (const { op } of nodes) counts.set(op, (counts.get(op) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]);
}

const MOST_KINDS = 8;

export function ModelCard({ model }: { model: LoadedModel }) {
  const { name, bytes, external, info } = model;
  const size = Object.values(external).reduce((sum, file) => sum + file.size, bytes.size);
  const counts = countsOf(model);
  return (
    <section class="card" aria-labelledby="model-title">
      <h2 id="model-title">{name}</h2>
      <dl class="facts">
        <div>
          <dt>Size</dt>
          <dd>{formatBytes(size)}</dd>
        </div>
        <div>
          <dt>Weights</dt>
          <dd>{info.parameters.toLocaleString('en')}</dd>
        </div>
        <div>
          <dt>Operators</dt>
          <dd>{model.nodes.length}</dd>
        </div>
      </dl>
      <ul class="values">
        {info.inputs.map((value) => (
          <li key={`in ${value.name}`}>
            <span class="tag">in</span> <strong>{value.name}</strong>{' '}
            <span class="muted">{shapeOf(value)}</span>
          </li>
        ))}
        {info.outputs.map((value) => (
          <li key={`out ${value.name}`}>
            <span class="tag">out</span> <strong>{value.name}</strong>{' '}
            <span class="muted">{shapeOf(value)}</span>
          </li>
        ))}
      </ul>
      <ul class="chips" aria-label="Kinds of operators">
        {counts.slice(0, MOST_KINDS).map(([op, count]) => (
          <li key={op}>
            {op} <span class="muted">{count}</span>
          </li>
        ))}
        {counts.length > MOST_KINDS && <li>{counts.length - MOST_KINDS} more kinds</li>}
      </ul>
      <div class="buttons">
        <button type="button" class="button" onClick={() => go('see')}>
          <Icon name="graph" />
          See the graph
        </button>
        <FileButton label="Another model" icon="file" />
      </div>
    </section>
  );
}

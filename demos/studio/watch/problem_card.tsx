// Shows the last error, and leads to the operator that it is about.

import { Icon } from '../icon.js';
import { model, problem, room, showNode } from '../state/store.js';

export function ProblemCard() {
  const now = problem.value;
  if (!now) return null;
  const { title, text, hint, node } = now;
  const known = node !== undefined && model.value?.nodes.some(({ name }) => name === node);
  return (
    <section class="problem" role="alert" aria-label="Problem">
      <Icon name="warn" />
      <div>
        <h2>{title}</h2>
        <p>{text}</p>
        {node && (
          <p>
            It is about the operator <code>{node}</code>.
          </p>
        )}
        {hint && <p>{hint}</p>}
        {known && room.value !== 'see' && (
          <button type="button" class="button" onClick={() => showNode(node)}>
            Show it in the graph
          </button>
        )}
      </div>
      <button
        type="button"
        class="round"
        aria-label="Close this message"
        onClick={() => (problem.value = undefined)}
      >
        <Icon name="close" />
      </button>
    </section>
  );
}

// Finds operators by name, kind or value.

import type { NodeDetails } from 'requant';
import { useRef, useState } from 'preact/hooks';
import { Icon } from '../icon.js';
import { selected } from '../state/store.js';

const MOST = 40;

function matching(nodes: readonly NodeDetails[], text: string): NodeDetails[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return [];
  return nodes.filter(({ name, op, inputs, outputs }) =>
    [name, op, ...outputs, ...inputs].some((one) => one.toLowerCase().includes(wanted)),
  );
}

export function Search({ nodes }: { nodes: readonly NodeDetails[] }) {
  const [text, setText] = useState('');
  const input = useRef<HTMLInputElement>(null);
  const found = matching(nodes, text);
  const take = (name: string) => {
    selected.value = name;
    setText('');
    document.querySelector<HTMLElement>('.graph-canvas')?.focus();
  };
  return (
    <div
      class="graph-search"
      onKeyDown={(event) => {
        if (event.key === 'Escape') {
          setText('');
          input.current?.focus();
        }
      }}
    >
      <Icon name="search" />
      <input
        ref={input}
        type="search"
        placeholder="Find an operator"
        aria-label="Find an operator"
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && found[0]) take(found[0].name);
        }}
      />
      {text.trim() !== '' && (
        <div class="found" role="region" aria-label="Operators that were found" tabIndex={0}>
          {found.slice(0, MOST).map(({ name, op }) => (
            <button key={name} type="button" onClick={() => take(name)}>
              <strong>{op}</strong> {name}
            </button>
          ))}
          <p class="small muted" role="status">
            {found.length === 0
              ? 'Nothing has this name.'
              : found.length > MOST
                ? `${found.length - MOST} more`
                : `${found.length} found`}
          </p>
        </div>
      )}
    </div>
  );
}

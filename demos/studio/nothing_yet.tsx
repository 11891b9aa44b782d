// The page of a step that has nothing to show before the model is quantized.

import { go } from './state/store.js';

export function NothingYet({ id, title, lead }: { id: string; title: string; lead: string }) {
  return (
    <div class="page">
      <h1 id={id} tabIndex={-1}>
        {title}
      </h1>
      <p class="lead">{lead}</p>
      <div class="buttons">
        <button type="button" class="button primary" onClick={() => go('choose')}>
          Choose a recipe
        </button>
      </div>
    </div>
  );
}

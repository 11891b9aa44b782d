// The room of recipes.

import { Icon } from '../icon.js';
import { quantizeNow } from '../engine/run.js';
import {
  type Width,
  go,
  job,
  model,
  recipe,
  result,
  samples,
  setWidth,
  showNode,
  stale,
  widths,
} from '../state/store.js';
import { Budget } from './budget.js';
import { type Recipe, ownRecipe, recipeOf, recipes } from './recipes.js';

/** Operators whose weights can be quantized in blocks. */
const MATRICES = ['MatMul', 'Gemm', 'LSTM', 'GRU', 'RNN'];

/** The reason against a recipe for this model and these samples, or nothing. */
function obstacle({ needsSamples, weights, epochs }: Recipe): string {
  const given = samples.value;
  if (needsSamples && !given) return 'Needs samples: bring some first.';
  if (weights) {
    const nodes = model.value?.nodes ?? [];
    const layers = nodes.filter(({ op }) => MATRICES.includes(op)).length;
    const others = nodes.filter(({ op }) => op.startsWith('Conv')).length;
    if (layers === 0) return 'This network has no matrix products: nothing would change.';
    if (others > layers)
      return 'Most layers of this network are convolutions, which stay in float.';
  }
  if (epochs && given && given.count < 100) {
    return `${given.count} samples are few for training; hundreds are better.`;
  }
  return '';
}

function Card({ one }: { one: Recipe }) {
  const { id, name, text, cost, badge } = one;
  const against = obstacle(one);
  return (
    <label class="recipe">
      <input
        class="hidden-text"
        type="radio"
        name="recipe"
        value={id}
        checked={recipe.value === id}
        onChange={() => (recipe.value = id)}
      />
      <span class="tag accent">{badge}</span>
      <span class="recipe-name">{name}</span>
      <p>{text}</p>
      <p class="cost">{cost}</p>
      {against && <p class="needs">{against}</p>}
    </label>
  );
}

const widthName = (width: Width) => (width === 32 ? 'stays in float' : `${width} bits`);

function OwnWidths() {
  const entries = Object.entries(widths.value);
  if (entries.length === 0) return null;
  return (
    <section class="card" aria-labelledby="own-title">
      <h2 id="own-title">Layers with bits of their own</h2>
      <ul class="own-widths">
        {entries.map(([name, width]) => (
          <li key={name}>
            <button type="button" class="layer-link" onClick={() => showNode(name)}>
              {name}
            </button>
            <span>
              {widthName(width)}{' '}
              <button
                type="button"
                class="button small"
                aria-label={`As the recipe: ${name}`}
                onClick={() => setWidth(name)}
              >
                As the recipe
              </button>
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The button that starts, and what is missing for it. */
export function Start() {
  const chosen = recipeOf(recipe.value);
  const missing = chosen.needsSamples && !samples.value;
  const again = result.value && !stale.value;
  if (missing) {
    return (
      <button type="button" class="button primary" onClick={() => go('bring')}>
        Bring samples
        <Icon name="next" />
      </button>
    );
  }
  const busy = job.value !== undefined;
  return (
    <button
      type="button"
      class="button primary"
      aria-disabled={busy}
      onClick={() => !busy && void quantizeNow(Boolean(again))}
    >
      {again ? 'Quantize again' : 'Quantize'}
      <Icon name="next" />
    </button>
  );
}

export function Choose() {
  const chosen = recipeOf(recipe.value);
  const own = Object.keys(widths.value).length;
  return (
    <div class="page">
      <div>
        <h1 id="choose-title" tabIndex={-1}>
          Choose a recipe
        </h1>
        <p class="lead">
          Each one is a set of choices that suit a purpose. Single layers can differ: choose one in
          the graph.
        </p>
      </div>
      <fieldset class="recipes">
        <legend class="hidden-text">Recipes</legend>
        {[...recipes, ...(ownRecipe.value ? [ownRecipe.value] : [])].map((one) => (
          <Card key={one.id} one={one} />
        ))}
      </fieldset>
      <Budget />
      <OwnWidths />
      <div class="go">
        <p>
          <strong>{chosen.name}</strong>
          <span class="muted">
            {' '}
            · {samples.value ? samples.value.title : 'without samples'}
            {own > 0 ? ` · ${own} ${own === 1 ? 'layer' : 'layers'} of your own` : ''}
          </span>
        </p>
        <Start />
      </div>
    </div>
  );
}

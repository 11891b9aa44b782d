// The address keeps the recipe and the bits of single layers, never the model.

import { effect } from '@preact/signals';
import type { NodeDetails, QuantizeConfig } from 'requant';
import { type RecipeId, ownRecipe, recipeFrom, recipes } from '../choose/recipes.js';
import { type Width, recipe, widths } from './store.js';

const WIDTHS: readonly number[] = [2, 4, 8, 32];

let pending: Readonly<Record<string, Width>> = {};

/** The address with the present settings. */
export function linkOf(id: RecipeId, own: Readonly<Record<string, Width>>): string {
  const parameters = new URLSearchParams({ recipe: id });
  const config = id === 'own' && ownRecipe.value?.config;
  if (config) parameters.set('config', JSON.stringify(config));
  for (const [name, bits] of Object.entries(own)) parameters.append('bits', `${bits}:${name}`);
  return `${location.href.replace(/#.*/, '')}#${parameters}`;
}

/** The config of an address; what is no object counts as none, and the engine checks its keys. */
function configFrom(text: string): QuantizeConfig | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Takes the settings of the address, and writes later changes into it. */
export function followLink(): void {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const asked = recipes.find(({ id }) => id === parameters.get('recipe'));
  if (asked) recipe.value = asked.id;
  const config = configFrom(parameters.get('config') ?? '');
  if (config) {
    ownRecipe.value = recipeFrom(config, 'Settings of the link');
    recipe.value = 'own';
  }
  const entries = parameters.getAll('bits').flatMap((text) => {
    const [, bits, name] = /^(\d+):(.+)$/.exec(text) ?? [];
    return name && WIDTHS.includes(Number(bits)) ? [[name, Number(bits) as Width] as const] : [];
  });
  pending = Object.fromEntries(entries);
  let first = true;
  effect(() => {
    const link = linkOf(recipe.value, widths.value);
    if (!first) history.replaceState(null, '', link);
    first = false;
  });
}

/** The bits of the address for layers that this model has. They are given once. */
export function pendingWidths(nodes: readonly NodeDetails[]): Record<string, Width> {
  const names = new Set(nodes.map(({ name }) => name));
  const fitting = Object.entries(pending).filter(([name]) => names.has(name));
  pending = {};
  return Object.fromEntries(fitting);
}

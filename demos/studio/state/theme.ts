// Light or dark: as the system says, until the user says otherwise.

import { effect, signal } from '@preact/signals';

const KEY = 'requant-studio-theme';
const dark = matchMedia('(prefers-color-scheme: dark)');

type Theme = 'light' | 'dark';

const system = (): Theme => (dark.matches ? 'dark' : 'light');

function stored(): Theme | undefined {
  try {
    const value = localStorage.getItem(KEY);
    return value === 'light' || value === 'dark' ? value : undefined;
  } catch {
    return undefined;
  }
}

const chosen = signal<Theme | undefined>(stored());

/** The colours that the page has now. */
export const theme = signal<Theme>(chosen.value ?? system());

/** Keeps the page in the colours that the user or the system wants. */
export function applyTheme(): void {
  const update = () => {
    theme.value = chosen.value ?? system();
  };
  dark.addEventListener('change', update);
  effect(update);
  effect(() => {
    if (chosen.value) document.documentElement.dataset['theme'] = chosen.value;
  });
}

/** Takes the other colours, and remembers them. */
export function toggleTheme(): void {
  chosen.value = theme.value === 'dark' ? 'light' : 'dark';
  try {
    localStorage.setItem(KEY, chosen.value);
  } catch {
    // Without storage the choice holds until the page is closed.
  }
}

/** The present value of a colour of the style, such as "--ink", for drawings on a canvas. */
export function colourOf(name: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  probe.hidden = true;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

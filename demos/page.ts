// Small helpers that the demos share.

import { RequantError } from 'requant';

/** The element with this id. */
export function element<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

/** An error in words: the message, and the remedy where the package knows one. */
export function describe(error: unknown): string {
  if (error instanceof RequantError) return [error.message, error.hint].filter(Boolean).join('. ');
  return error instanceof Error ? error.message : String(error);
}

/** Says in the line #status what is happening; an error is shown as one. */
export function say(text: string, isError = false): void {
  const status = element('status');
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle('error', isError);
}

/** Shows an error in the line #status. */
export const fail = (error: unknown): void => say(describe(error), true);

/**
 * Turns a button on or off by aria-disabled: the attribute `disabled` would take the keyboard's focus away. The
 * button's listener must ask {@link isOn}.
 */
export function turn(button: HTMLElement, on: boolean): void {
  button.setAttribute('aria-disabled', String(!on));
}

export const isOn = (button: HTMLElement): boolean =>
  button.getAttribute('aria-disabled') !== 'true';

/** The bytes of a file. Throws an error that names the file. */
export async function fetchBytes(url: string | URL, missing = ''): Promise<Uint8Array> {
  const name = new URL(url, location.href).pathname.replace(/.*\//, '');
  const failed = (why: string) =>
    new Error(`${name} cannot be loaded (${why}).${missing && ` ${missing}`}`);
  const response = await fetch(url).catch(() => {
    throw failed('no network');
  });
  // A development server answers with a page where a file is missing.
  const isPage = response.headers.get('Content-Type')?.startsWith('text/html');
  if (!response.ok || isPage) throw failed(response.ok ? 'not found' : `${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

/** A text such as "115 kB" for a number of bytes. */
export function bytesText(bytes: number): string {
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Draws a list of bars: a name and a share from 0 to 1 each. The largest one is marked. */
export function showBars(
  list: HTMLElement,
  bars: readonly { name: string; share: number }[],
): void {
  const most = Math.max(...bars.map(({ share }) => share));
  list.replaceChildren(
    ...bars.map(({ name, share }) => {
      const item = document.createElement('li');
      const bar = document.createElement('span');
      bar.className = 'bar';
      bar.style.setProperty('--share', share.toFixed(3));
      const value = document.createElement('span');
      value.textContent = `${(100 * share).toFixed(0)} %`;
      item.append(name, bar, value);
      item.classList.toggle('best', share === most);
      return item;
    }),
  );
}

/** Scores as shares that add up to 1. */
export function softmax(scores: readonly number[]): number[] {
  const most = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

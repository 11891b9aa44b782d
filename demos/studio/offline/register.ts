// Starts the service worker of the built studio.

import { signal } from '@preact/signals';

/** Whether everything that the studio needs is kept on this device. */
export const offline = signal(false);

/** Registers the service worker once the page is idle, and lets it fetch what later steps need. */
export function keepForOffline(): void {
  // A development server has no list of files.
  if (!('serviceWorker' in navigator) || !import.meta.url.includes('/assets/')) return;
  const start = async () => {
    await navigator.serviceWorker.register(
      new URL(/* @vite-ignore */ '../service_worker.js', import.meta.url),
    );
    const { active } = await navigator.serviceWorker.ready;
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => (offline.value = data === true);
    active?.postMessage('fetch the rest', [port2]);
  };
  // Private windows of some browsers refuse service workers.
  const begin = () => void start().catch(() => {});
  if (document.readyState === 'complete') begin();
  else window.addEventListener('load', begin, { once: true });
}

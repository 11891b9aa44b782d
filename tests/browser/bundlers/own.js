// Starts a Worker of the page's own, in the form that bundlers recognize.

export function inOwnWorker(names) {
  return new Promise((resolve) => {
    const worker = new Worker(new URL('./own_worker.js', import.meta.url), { type: 'module' });
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = (event) => resolve({ error: event.message || 'the script failed' });
    setTimeout(() => resolve({ error: 'no answer in 120 s' }), 120_000);
    worker.postMessage({ names, base: location.href });
  });
}

// Keeps the studio's files, so that it works without a network after the first visit, and answers with the headers
// of cross-origin isolation, which threads need and some hosts cannot send.

/** The members of a service worker's scope that this file uses. */
interface Scope {
  addEventListener(kind: 'install' | 'activate', listener: (event: Waiting) => void): void;
  addEventListener(kind: 'fetch', listener: (event: Fetching) => void): void;
  addEventListener(kind: 'message', listener: (event: Waiting & MessageEvent) => void): void;
  skipWaiting(): Promise<void>;
  clients: { claim(): Promise<void> };
}
interface Waiting {
  waitUntil(work: Promise<unknown>): void;
}
interface Fetching {
  request: Request;
  respondWith(response: Promise<Response>): void;
}

const scope = globalThis as unknown as Scope;

// The build writes the list (web/scripts/studio.mjs).
const files = JSON.parse('OFFLINE_FILES') as { version: string; shell: string[]; later: string[] };
const PREFIX = 'requant-studio-';
const CACHE = `${PREFIX}${files.version}`;

async function install(): Promise<void> {
  const cache = await caches.open(CACHE);
  await cache.addAll(files.shell);
  await scope.skipWaiting();
}

async function activate(): Promise<void> {
  const names = await caches.keys();
  const former = names.filter((name) => name.startsWith(PREFIX) && name !== CACHE);
  await Promise.all(former.map((name) => caches.delete(name)));
  await scope.clients.claim();
}

/**
 * Fetches the files that the first screen does not need: the engine, the layout, the sample data. Tells the page
 * whether all of them are kept.
 */
async function fetchLater(page: MessagePort | undefined): Promise<void> {
  const cache = await caches.open(CACHE);
  let all = true;
  for (const name of files.later) {
    if (await cache.match(name, { ignoreVary: true })) continue;
    await cache.add(name).catch(() => (all = false));
  }
  page?.postMessage(all);
}

function isolated(response: Response): Response {
  // The body of an opaque response, or of one without a body, cannot be given on.
  if (response.type === 'opaque' || response.status === 304 || response.status === 204)
    return response;
  const headers = new Headers(response.headers);
  headers.set('Cross-Origin-Opener-Policy', 'same-origin');
  headers.set('Cross-Origin-Embedder-Policy', 'require-corp');
  headers.set('Cross-Origin-Resource-Policy', 'same-origin');
  const { status, statusText } = response;
  return new Response(response.body, { status, statusText, headers });
}

/** Whether a request is for the studio's page, which has settings behind its address. */
function isPage({ mode, url }: Request): boolean {
  const { pathname } = new URL(url);
  const own = ['./', './index.html'].map((name) => new URL(name, location.href).pathname);
  return mode === 'navigate' && own.includes(pathname);
}

async function answer(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  const wanted = isPage(request) ? './' : request;
  // Hosts that answer for several origins say so by Vary; here is one.
  const kept = await cache.match(wanted, { ignoreVary: true });
  return isolated(kept ?? (await fetch(request)));
}

scope.addEventListener('install', (event) => event.waitUntil(install()));
scope.addEventListener('activate', (event) => event.waitUntil(activate()));
scope.addEventListener('message', (event) => event.waitUntil(fetchLater(event.ports[0])));
scope.addEventListener('fetch', (event) => {
  const { request } = event;
  const own = new URL(request.url).origin === location.origin;
  if (own && request.method === 'GET') event.respondWith(answer(request));
});

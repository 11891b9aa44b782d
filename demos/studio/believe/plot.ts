// Loads the library of charts.

import type uPlot from 'uplot';

/** Whether Intl takes the browser's language. WebKit under LANG=C says "c", which is none. */
function languageIsKnown(): boolean {
  try {
    new Intl.NumberFormat(navigator.language);
    return true;
  } catch {
    return false;
  }
}

/** The class of charts. The library reads the language when it loads, and throws where Intl does not know it. */
export async function loadPlot(): Promise<typeof uPlot> {
  if (languageIsKnown()) return (await import('uplot')).default;
  const own = Object.getOwnPropertyDescriptor(navigator, 'language');
  Object.defineProperty(navigator, 'language', { value: 'en', configurable: true });
  try {
    return (await import('uplot')).default;
  } finally {
    Reflect.deleteProperty(navigator, 'language');
    if (own) Object.defineProperty(navigator, 'language', own);
  }
}

// Runs a page that uses the studio in one of the browsers.

import { start } from '../browsers.mjs';
import { serve } from '../site.mjs';
import { SITE } from '../studio_site.mjs';
import { settled } from '../webkit.mjs';

async function once(browser, page) {
  let hear;
  const heard = new Promise((resolve) => (hear = resolve));
  const site = await serve(hear, SITE);
  const running = await start(browser, `${site.url}tests/browser/page/${page}`).catch(
    async (error) => {
      await site.close();
      throw error;
    },
  );
  try {
    return await Promise.race([heard, running.ended]);
  } finally {
    await running.close();
    await site.close();
  }
}

/** What the page posts in this browser, or its error; WebKit may try again while `holds(result)` is false. */
export async function useIn(browser, page, t, holds = ({ error }) => !error) {
  return settled(browser, t, () => once(browser, page), holds);
}

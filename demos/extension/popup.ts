// The popup: lists the pictures of the tab, with what the network in the service worker says.

import { element, fail, say } from '../page.js';

const MOST = 20;

/** Runs in the tab: the addresses of its larger pictures. */
function picturesInTab(): string[] {
  const large = [...document.images].filter(
    ({ naturalWidth, naturalHeight }) => naturalWidth >= 20 && naturalHeight >= 20,
  );
  return [...new Set(large.map(({ currentSrc }) => currentSrc).filter(Boolean))];
}

async function main(): Promise<void> {
  // A test opens the popup as a tab, and names the tab to look at.
  const given = new URLSearchParams(location.search).get('tab');
  const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });
  const tabId = given ? Number(given) : tab?.id;
  if (tabId === undefined) return say('There is no page to look at.');
  const [found] = await chrome.scripting
    .executeScript({ target: { tabId }, func: picturesInTab })
    .catch(() => {
      throw new Error('The browser lets no extension look at this page.');
    });
  const urls = (found?.result ?? []).slice(0, MOST);
  if (urls.length === 0) return say('This page has no pictures.');
  say(`Looking at ${urls.length} pictures ...`);
  const answers = await chrome.runtime.sendMessage({ urls });
  element('answers').replaceChildren(
    ...answers.map((answer, index) => {
      const picture = document.createElement('img');
      picture.src = urls[index]!;
      picture.alt = `Picture ${index + 1}`;
      const item = document.createElement('li');
      item.append(
        picture,
        'error' in answer ? answer.error : `${answer.name} (${Math.round(100 * answer.share)} %)`,
      );
      return item;
    }),
  );
  say(`Named ${answers.filter((answer) => 'name' in answer).length} of ${urls.length} pictures.`);
}

main().catch(fail);

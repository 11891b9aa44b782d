// Does what users do in the studio.

import assert from 'node:assert/strict';

/** Drops files on the page, as from a folder of the system. */
export async function drop(page, files) {
  const sent = files.map(({ name, mimeType, buffer }) => [
    name,
    mimeType,
    buffer.toString('base64'),
  ]);
  await page.evaluate((list) => {
    const transfer = new DataTransfer();
    for (const [name, type, text] of list) {
      const data = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
      transfer.items.add(new File([data], name, { type }));
    }
    const options = { dataTransfer: transfer, bubbles: true, cancelable: true };
    document.body.dispatchEvent(new DragEvent('dragenter', options));
    document.body.dispatchEvent(new DragEvent('drop', options));
  }, sent);
}

/** Chooses files in the system's dialog. */
export const choose = (page, files) => page.setInputFiles('input[type=file] >> nth=0', files);

/** Goes to a room. */
export const go = (page, name) => page.click(`nav.steps button:has-text("${name}")`);

/** The problems that the page shows. */
export const problemText = async (page) =>
  (await page.locator('.problem').allTextContents()).join('\n');

/** Waits until no work is in progress. */
export const idle = (page) => page.waitForFunction(() => !document.querySelector('.job'));

/** Takes the chosen recipe, and waits for the comparison. */
export async function quantize(page) {
  await page.click('button.primary:has-text("Quantize")');
  await page.waitForSelector('.verdict, .problem', { timeout: 300_000 });
  assert.equal(await page.locator('.problem').count(), 0, await problemText(page));
}

/** Waits for a part of the page; a problem that the page shows instead is an error with its text. */
export async function shown(page, selector) {
  await page.waitForSelector(`${selector}, .problem`);
  assert.equal(await page.locator('.problem').count(), 0, await problemText(page));
}

/** Opens the shipped network with its pictures. */
export async function openSample(page) {
  await page.click('button:has-text("tells clothes apart")');
  await shown(page, '.preview canvas');
  await idle(page);
}

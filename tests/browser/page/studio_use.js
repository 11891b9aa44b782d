// Uses the studio in a frame, as a person would: from inside of the page, since no driver exists for every browser.

/** Posts what came out to the server of the test. */
export const post = (result) =>
  fetch('/', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(result),
  });

export const frame = document.querySelector('iframe');
export const inside = () => frame.contentDocument;

/** Milliseconds to wait for a step; a busy machine may take several times as long as an idle one. */
const LONGEST = 600_000;

/** Waits until `get()` gives something. */
export async function until(what, get) {
  const end = performance.now() + LONGEST;
  while (performance.now() < end) {
    const problem = inside()?.querySelector('.problem');
    if (problem) throw new Error(`while waiting for ${what}: ${problem.textContent}`);
    const found = get();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const work = inside()?.querySelector('.job')?.textContent ?? 'no work';
  throw new Error(`${what} did not come: ${work}, ${inside()?.querySelector('main')?.textContent}`);
}

export const element = (selector, text = '') =>
  until(`${selector} ${text}`, () =>
    [...(inside()?.querySelectorAll(selector) ?? [])].find((one) => one.textContent.includes(text)),
  );

export const press = async (selector, text) => (await element(selector, text)).click();

/** Drops files on the page in the frame. */
export function drop(files) {
  const { DataTransfer, DragEvent } = frame.contentWindow;
  const dataTransfer = new DataTransfer();
  for (const file of files) dataTransfer.items.add(file);
  const options = { dataTransfer, bubbles: true, cancelable: true };
  inside().body.dispatchEvent(new DragEvent('drop', options));
}

/** The first classes of both networks, by the names of pictures. */
export const answers = () =>
  Object.fromEntries(
    [...inside().querySelectorAll('.answer')].map((answer) => [
      answer.querySelector('.answer-name strong').textContent,
      [...answer.querySelectorAll('.scores li:first-child')].map(({ textContent }) => textContent),
    ]),
  );

export const idle = () => until('the end of the work', () => !inside().querySelector('.job'));

/** Finds an operator in the graph, gives it bits of its own, and quantizes. */
export async function changeBits(name, bits) {
  await press('nav.steps button', 'Graph');
  const search = await element('.graph-search input');
  search.value = name;
  search.dispatchEvent(new Event('input', { bubbles: true }));
  await press('.found button');
  await press('.width', bits);
  await press('.node-panel button.primary', 'Quantize');
  await element('.verdict');
}

/** Presses a button of the last room; gives the file that a person would get. */
export async function saved(button) {
  await press('nav.steps button', 'Take');
  // The download itself would ask a person where to put the file.
  const { URL: Urls, HTMLAnchorElement: Anchor } = frame.contentWindow;
  const blob = new Promise((resolve) => {
    const make = Urls.createObjectURL.bind(Urls);
    Urls.createObjectURL = (made) => {
      resolve(made);
      Urls.createObjectURL = make;
      return make(made);
    };
  });
  Anchor.prototype.click = () => {};
  await press('button', button);
  return blob;
}

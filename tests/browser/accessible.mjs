// Rules that every page of the project keeps at every size and in every state: those of axe-core, and some
// more. The test of each page checks its behavior (such as the focus).

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Sizes and color schemes at which pages are checked. */
export const SCREENS = [
  { name: 'desktop', viewport: { width: 1280, height: 900 }, colorScheme: 'light' },
  { name: 'desktop-dark', viewport: { width: 1280, height: 900 }, colorScheme: 'dark' },
  { name: 'phone', viewport: { width: 390, height: 844 }, colorScheme: 'light' },
  { name: 'small-phone-dark', viewport: { width: 320, height: 640 }, colorScheme: 'dark' },
];

/** Runs in the page. Returns a line for each problem: the rule, and the element. */
async function problemsInPage() {
  const found = [];
  const describe = (element) => {
    const id = element.id ? `#${element.id}` : '';
    const classes = [...element.classList].map((name) => `.${name}`).join('');
    const text = (element.getAttribute('aria-label') ?? element.textContent).trim().slice(0, 40);
    return `${element.localName}${id}${classes} "${text}"`;
  };
  const say = (rule, element) => found.push(`${rule}: ${describe(element)}`);
  const all = [...document.body.querySelectorAll('*')].filter((element) =>
    element.checkVisibility({ checkVisibilityCSS: true }),
  );
  const isFor = (element, selector) => element.matches(selector);
  // Text for screen readers only is clipped to a pixel.
  const isClipped = (element) => {
    for (let at = element; at; at = at.parentElement) {
      if (getComputedStyle(at).clipPath !== 'none') return true;
    }
    return false;
  };
  const scrolls = (element) => /auto|scroll|hidden/.test(getComputedStyle(element).overflowX);
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = (colour) => {
    const [red, green, blue] = channels(colour).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  /** The contrast of a text against the nearest background that is not transparent (WCAG 2.2, 1.4.3). */
  const contrast = (element) => {
    const { color, fill } = getComputedStyle(element);
    let ground = element;
    while (channels(getComputedStyle(ground).backgroundColor)[3] === 0)
      ground = ground.parentElement;
    const pair = [
      luminance(element.localName === 'text' ? fill : color),
      luminance(getComputedStyle(ground).backgroundColor),
    ];
    return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  };
  const width = document.documentElement.clientWidth;

  const sideways = document.documentElement.scrollWidth;
  if (sideways > width) found.push(`the page is ${sideways} wide on a screen of ${width}`);

  for (const element of all) {
    const name =
      element.getAttribute('aria-label') ??
      element
        .getAttribute('aria-labelledby')
        ?.split(' ')
        .map((id) => document.getElementById(id).textContent)
        .join(' ') ??
      '';
    const labels = [...(element.labels ?? [])].map((label) => label.textContent).join(' ');
    const drawing = 'canvas, img, svg, video, object, iframe';
    const hidden = element.closest('[aria-hidden="true"]') !== null;
    const inner = element.parentElement.closest('svg') !== null;
    if (isFor(element, drawing) && !hidden && !inner) {
      if (!(name || element.getAttribute('alt'))) say('a drawing without a name', element);
      if (element.localName !== 'img' && !element.hasAttribute('role'))
        say('a drawing without a role', element);
    }
    if (isFor(element, 'progress, meter, input, select, textarea') && !(name || labels)) {
      say('a control without a name', element);
    }
    if (isFor(element, 'button') && !(name || element.textContent.trim()))
      say('a button without a name', element);
    if (isFor(element, 'button:disabled')) say('a disabled button loses the focus', element);
    if (isFor(element, 'table') && !element.caption?.textContent.trim())
      say('a table without a caption', element);
    if (isFor(element, 'th') && !element.scope) say('a header without a scope', element);
    if (isFor(element, 'th') && !element.textContent.trim())
      say('a header without a text', element);
    if (isFor(element, 'table') && !element.querySelector('tbody th[scope=row]')) {
      say('a table whose rows have no headers', element);
    }

    const style = getComputedStyle(element);
    const overflows =
      (/auto|scroll/.test(style.overflowX) && element.scrollWidth > element.clientWidth) ||
      (/auto|scroll/.test(style.overflowY) && element.scrollHeight > element.clientHeight);
    if (overflows && !(element.tabIndex >= 0 && element.hasAttribute('role') && name)) {
      say('an area that scrolls, but not by the keyboard, or has no name', element);
    }
    if (isClipped(element)) continue;
    // An element outside of the screen must be inside of a scrolling one.
    const box = element.getBoundingClientRect();
    let holder = element.parentElement;
    while (holder && holder !== document.body && !scrolls(holder)) holder = holder.parentElement;
    if (holder === document.body && box.width > 0 && (box.right > width + 1 || box.left < -1)) {
      say('wider than the screen', element);
    }
    const ownText = [...element.childNodes].some(
      (node) => node.nodeType === Node.TEXT_NODE && node.data.trim(),
    );
    if (!ownText) continue;
    const scale = element.getScreenCTM?.()?.a ?? 1;
    const size = parseFloat(style.fontSize) * scale;
    if (size < 11.5) say(`text of ${size.toFixed(1)} pixels`, element);
    if (/hidden|clip/.test(style.overflowX) && element.scrollWidth > element.clientWidth) {
      say('text is cut', element);
    }
  }

  for (const drawing of document.querySelectorAll('svg')) {
    const shown = [...drawing.querySelectorAll('text')].filter((text) => text.checkVisibility());
    const texts = shown.map((text) => ({
      text,
      box: text.getBoundingClientRect(),
    }));
    texts.forEach(({ text, box }, index) => {
      const over = texts
        .slice(index + 1)
        .some(
          (other) =>
            other.box.left < box.right &&
            other.box.right > box.left &&
            other.box.top < box.bottom &&
            other.box.bottom > box.top,
        );
      if (over) say('labels lie upon each other', text);
      // axe reads `color`, not `fill`.
      if (contrast(text) < 4.5) say('a label of too little contrast', text);
      const card = drawing.closest('section')?.getBoundingClientRect();
      if (card && (box.left < card.left || box.right > card.right || box.bottom > card.bottom)) {
        say('a label leaves its card', text);
      }
    });
  }

  const { violations, incomplete } = await globalThis.axe.run(document, {
    rules: { 'target-size': { enabled: true } },
  });
  for (const { id, nodes } of [...violations, ...incomplete]) {
    for (const { html, target, any, all: each, none } of nodes) {
      // axe cannot decide about text in drawings, on shades, or of one letter.
      if (id === 'color-contrast' && contrast(document.querySelector(target[0])) >= 4.5) continue;
      const why = [...any, ...each, ...none].map(({ message }) => message).join('; ');
      found.push(`axe ${id}: ${html.slice(0, 160)} (${why})`);
    }
  }
  return found;
}

/** The problems of the page in its present state. */
export async function problemsOf(page) {
  await page.evaluate(AXE);
  return page.evaluate(problemsInPage);
}

// The canvas with the graph, its keys and its buttons.

import { useEffect, useMemo, useRef } from 'preact/hooks';
import { Icon, type IconName } from '../icon.js';
import { announcement, problem, selected, widths } from '../state/store.js';
import { theme } from '../state/theme.js';
import { draw, lookOf } from './draw.js';
import { followGestures } from './gestures.js';
import type { AllMeasures } from './measures.js';
import type { Legend, Paint } from './paint.js';
import type { Box } from './network.js';
import type { Scene } from './scene.js';
import { View } from './view.js';

const STEP = 1.25;

/** The text at the right of a box. */
function badgeOf({ node }: Box, measures: AllMeasures): string {
  if (!node) return '';
  const bits = widths.value[node.name] ?? measures.get(node.name).bits;
  return bits === undefined ? '' : bits === 32 ? 'F' : String(bits);
}

function announce({ title, subtitle, readers, makers, node }: Box): void {
  const near = `${makers.length} before, ${readers.length} after`;
  announcement.value = `${title} ${node?.name ?? subtitle}, ${near}.`;
}

/** Chooses a box; inputs and outputs of the model have no panel. */
function choose(scene: Scene, id: number | undefined): void {
  const box = id === undefined ? undefined : scene.box(id);
  selected.value = box?.node?.name;
  if (box) announce(box);
}

/** The box that a key leads to. */
function neighbour(scene: Scene, from: number | undefined, key: string): number | undefined {
  const last = scene.network.boxes.length - 1;
  if (key === 'Home' || (from === undefined && key.startsWith('Arrow'))) return 0;
  if (key === 'End') return last;
  if (from === undefined) return undefined;
  const { makers, readers } = scene.box(from);
  if (key === 'ArrowDown') return readers[0];
  if (key === 'ArrowUp') return makers[0];
  if (key === 'ArrowLeft') return scene.beside(from, -1);
  if (key === 'ArrowRight') return scene.beside(from, 1);
  return undefined;
}

export function Stage(props: {
  scene: Scene;
  paint(box: Box): Paint;
  legend: readonly Legend[];
  measures: AllMeasures;
  title: string;
}) {
  const { scene, paint, legend, measures, title } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useMemo(() => new View(), []);
  const request = useRef(0);
  // Inputs and outputs of the model can have the keyboard's attention, too.
  const current = useRef<number | undefined>(undefined);
  const name = selected.value;
  const own = widths.value;
  const colours = theme.value;
  const failed = problem.value?.node;
  const { ids } = scene.network;
  const chosen = name === undefined ? undefined : ids.get(name);

  const paintNow = () => {
    const context = canvas.current?.getContext('2d');
    if (!context) return;
    draw(context, {
      scene,
      view,
      look,
      paint,
      badge: (box) => badgeOf(box, measures),
      selected: current.current,
      failed: failed === undefined ? undefined : ids.get(failed),
      own: ({ node }) => (node ? own[node.name] : undefined),
    });
  };
  const look = useMemo(lookOf, [colours]);
  const latest = useRef(paintNow);
  latest.current = paintNow;
  const redraw = () => {
    request.current ||= requestAnimationFrame(() => {
      request.current = 0;
      latest.current();
    });
  };

  useEffect(() => {
    const element = canvas.current!;
    let first = true;
    const observer = new ResizeObserver(() => {
      const { clientWidth, clientHeight } = element;
      const ratio = devicePixelRatio || 1;
      element.width = clientWidth * ratio;
      element.height = clientHeight * ratio;
      view.width = clientWidth;
      view.height = clientHeight;
      if (first && clientWidth > 0) {
        first = false;
        const box = selected.value === undefined ? undefined : ids.get(selected.value);
        view.begin(scene.layout, scene.placed(0));
        if (box !== undefined) view.reveal(scene.placed(box));
      }
      // At once: a canvas that changed its size is empty.
      latest.current();
    });
    observer.observe(element);
    const stop = followGestures(element, view, redraw, (x, y) => {
      const point = view.toGraph(x, y);
      const id = scene.at(point.x, point.y);
      current.current = id;
      choose(scene, id);
      redraw();
    });
    return () => {
      observer.disconnect();
      stop();
      cancelAnimationFrame(request.current);
      request.current = 0;
    };
  }, [scene]);

  useEffect(() => {
    // An effect runs after its render, perhaps after the next key: it follows the newest choice.
    const latest = selected.peek();
    const box = latest === undefined ? undefined : ids.get(latest);
    const now = current.current;
    const isTerminal = now !== undefined && scene.box(now)?.node === undefined;
    if (!(isTerminal && box === undefined)) current.current = box;
    if (box !== undefined) view.reveal(scene.placed(box));
    redraw();
  }, [scene, chosen]);
  useEffect(redraw, [paint, own, colours, failed, measures]);

  const zoom = (factor: number) => {
    view.zoomAt(factor);
    redraw();
  };
  const fit = () => {
    view.fit(scene.layout);
    redraw();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const { key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = neighbour(scene, current.current, key);
    if (to !== undefined) {
      current.current = to;
      choose(scene, to);
      view.reveal(scene.placed(to));
      redraw();
    } else if (key === '+' || key === '=') zoom(STEP);
    else if (key === '-') zoom(1 / STEP);
    else if (key === '0') fit();
    else if (key === 'Escape') choose(scene, undefined);
    else if (key === 'Enter') document.querySelector<HTMLElement>('#node-title')?.focus();
    else if (!key.startsWith('Arrow')) return;
    event.preventDefault();
  };
  const button = (label: string, icon: IconName, action: () => void) => (
    <button type="button" class="round" aria-label={label} title={label} onClick={action}>
      <Icon name={icon} />
    </button>
  );
  return (
    <>
      <canvas
        ref={canvas}
        class="graph-canvas"
        tabIndex={0}
        role="application"
        aria-label={title}
        aria-describedby="graph-keys"
        onKeyDown={onKeyDown}
      />
      <p id="graph-keys" class="hidden-text">
        Arrow keys go to operators before, after and beside. Plus and minus zoom, 0 shows
        everything, Enter goes to the details.
      </p>
      <div class="legend" role="group" aria-label="Legend">
        {legend.map(({ colour, share, text }) => (
          <span key={text}>
            <span
              class="swatch"
              style={{ background: colour, opacity: Math.min(1, share + 0.25) }}
            />
            {text}
          </span>
        ))}
      </div>
      <div class="zoom" role="group" aria-label="Zoom">
        {button('Zoom in', 'plus', () => zoom(STEP))}
        {button('Zoom out', 'minus', () => zoom(1 / STEP))}
        {button('Show everything', 'fit', fit)}
      </div>
    </>
  );
}

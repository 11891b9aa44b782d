// The frame of the page: header, steps, the present room, work in progress, problems.

import { type ComponentType, Fragment } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Bring } from './bring/bring.js';
import { takeFiles } from './bring/take_files.js';
import { droppedFiles } from './bring/files.js';
import { Icon, type IconName } from './icon.js';
import { offline } from './offline/register.js';
import { theme, toggleTheme } from './state/theme.js';
import { type Room, announcement, go, model, problem, result, room, rooms } from './state/store.js';
import { JobBar } from './watch/job_bar.js';
import { describe } from './watch/problems.js';
import { ProblemCard } from './watch/problem_card.js';

const titles: Readonly<Record<Room, { name: string; icon: IconName }>> = {
  bring: { name: 'Model', icon: 'model' },
  see: { name: 'Graph', icon: 'graph' },
  choose: { name: 'Recipe', icon: 'recipe' },
  believe: { name: 'Compare', icon: 'compare' },
  take: { name: 'Take', icon: 'take' },
};

/** Rooms other than the first one load when they are needed. */
const loaders: Readonly<Record<Exclude<Room, 'bring'>, () => Promise<ComponentType>>> = {
  see: () => import('./see/see.js').then(({ See }) => See),
  choose: () => import('./choose/choose.js').then(({ Choose }) => Choose),
  believe: () => import('./believe/believe.js').then(({ Believe }) => Believe),
  take: () => import('./take/take.js').then(({ Take }) => Take),
};

const loaded: Partial<Record<Room, ComponentType>> = { bring: Bring };

function RoomOf({ name }: { name: Room }) {
  const [, setReady] = useState('');
  useEffect(() => {
    if (name === 'bring' || loaded[name]) return;
    loaders[name]().then(
      (component) => {
        loaded[name] = component;
        setReady(name);
      },
      (error: unknown) => (problem.value = describe(error)),
    );
  }, [name]);
  const Component = loaded[name];
  return Component ? <Component /> : <p class="muted">Loading …</p>;
}

function Steps() {
  const has: Readonly<Record<Room, boolean>> = {
    bring: true,
    see: true,
    choose: true,
    believe: result.value !== undefined,
    take: result.value !== undefined,
  };
  return (
    <nav class="steps" aria-label="Steps">
      {rooms.map((name) => (
        <button
          key={name}
          type="button"
          class="step"
          aria-current={room.value === name ? 'step' : undefined}
          aria-disabled={!has[name]}
          title={has[name] ? undefined : 'Quantize the model first'}
          onClick={() => has[name] && go(name)}
        >
          <Icon name={titles[name].icon} />
          <span>{titles[name].name}</span>
        </button>
      ))}
    </nav>
  );
}

function Header() {
  const other = theme.value === 'dark' ? 'light' : 'dark';
  return (
    <header class="top">
      <a class="brand" href="./" aria-label="Requant Studio, start">
        <img src="./icon.svg" alt="" aria-hidden="true" width="28" height="28" />
        <span>
          Requant <span class="brand-light">Studio</span>
        </span>
      </a>
      {model.value && <Steps />}
      <div class="top-end">
        <p class="local">
          <Icon name="lock" />
          <span>{offline.value ? 'Local, works offline' : 'Local, nothing is sent'}</span>
        </p>
        <button
          type="button"
          class="round"
          aria-label={`Use ${other} colours`}
          title={`Use ${other} colours`}
          onClick={toggleTheme}
        >
          <Icon name={other} />
        </button>
      </div>
    </header>
  );
}

/** Files may be dropped anywhere on the page. */
function useDrop(): boolean {
  const [over, setOver] = useState(false);
  useEffect(() => {
    let depth = 0;
    const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') ?? false;
    const enter = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      depth += event.type === 'dragenter' ? 1 : 0;
      setOver(true);
    };
    const leave = () => {
      depth = Math.max(0, depth - 1);
      if (depth === 0) setOver(false);
    };
    const drop = (event: DragEvent) => {
      if (!event.dataTransfer) return;
      event.preventDefault();
      depth = 0;
      setOver(false);
      void takeFiles(() => droppedFiles(event.dataTransfer!));
    };
    const listeners = { dragenter: enter, dragover: enter, dragleave: leave, drop } as const;
    for (const [kind, listener] of Object.entries(listeners)) {
      document.addEventListener(kind, listener as EventListener);
    }
    return () => {
      for (const [kind, listener] of Object.entries(listeners)) {
        document.removeEventListener(kind, listener as EventListener);
      }
    };
  }, []);
  return over;
}

export function Shell() {
  const over = useDrop();
  return (
    <Fragment>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Header />
      <main id="main" class={`room room-${room.value}`} tabIndex={-1}>
        <ProblemCard />
        <RoomOf name={room.value} />
      </main>
      <JobBar />
      {over && <div class="dropping">Drop a model, pictures, or a folder</div>}
      <p class="hidden-text" role="status" aria-live="polite">
        {announcement.value}
      </p>
    </Fragment>
  );
}

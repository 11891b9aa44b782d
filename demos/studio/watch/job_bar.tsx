// Shows work in progress in every room.

import { job } from '../state/store.js';

/** "about 12 s left", in steps that do not flicker. */
function remaining(seconds: number | undefined): string {
  if (seconds === undefined) return '';
  if (seconds < 3) return 'a moment left';
  if (seconds < 60) return `about ${Math.ceil(seconds / 5) * 5} s left`;
  const minutes = Math.round(seconds / 60);
  return `about ${minutes} ${minutes === 1 ? 'minute' : 'minutes'} left`;
}

export function JobBar() {
  const now = job.value;
  if (!now) return null;
  const left = remaining(now.left);
  return (
    <section class="job" aria-label="Work in progress">
      <div class="job-text">
        <strong>{now.phase}</strong>
        <span class="muted job-detail">
          {[now.detail, left].filter(Boolean).join(' · ') || now.title}
        </span>
      </div>
      <progress max="1" value={now.share} aria-label={now.title} />
      <button
        type="button"
        class="button"
        aria-disabled={now.cancelled}
        onClick={() => !now.cancelled && now.cancel()}
      >
        Cancel
      </button>
    </section>
  );
}

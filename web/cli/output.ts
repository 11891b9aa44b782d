// Where a command writes: results to standard output, progress and remarks to standard error.

/** The two streams of a process, or what a test puts in their place. */
export interface Streams {
  out: (text: string) => void;
  err: (text: string) => void;
  /** Whether standard error is a terminal, on which a line can be written over. */
  tty: boolean;
}

/** The streams of this process. */
export const processStreams: Streams = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  tty: process.stderr.isTTY === true,
};

/** Takes the line of the cursor away. */
const CLEAR_LINE = '\r\x1b[K';

/**
 * Text for a terminal: names out of files may hold control characters, which would move the cursor or
 * change colours. Line feeds and tabs stay, and so does a {@link Progress} line's beginning.
 */
export function printable(text: string): string {
  if (text.startsWith(CLEAR_LINE)) return CLEAR_LINE + printable(text.slice(CLEAR_LINE.length));
  return text.replace(
    /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g,
    (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}

/** Streams whose text is {@link printable}. */
export function printableStreams({ out, err, tty }: Streams): Streams {
  return { out: (text) => out(printable(text)), err: (text) => err(printable(text)), tty };
}

/** One line that is written over while work goes on; silent unless on a terminal. */
export class Progress {
  #last = 0;
  #shown = false;

  constructor(private readonly streams: Streams) {}

  show(label: string, done: number, total?: number): void {
    if (!this.streams.tty) return;
    const now = performance.now();
    if (now - this.#last < 80 && done !== total) return;
    this.#last = now;
    this.#shown = true;
    const bar =
      total === undefined || total === 0
        ? String(done)
        : `${'#'.repeat(Math.round((done / total) * 24)).padEnd(24, '.')} ${done}/${total}`;
    this.streams.err(`${CLEAR_LINE}${label} ${bar}`);
  }

  /** Takes the line away. */
  clear(): void {
    if (this.#shown) this.streams.err(CLEAR_LINE);
    this.#shown = false;
  }
}

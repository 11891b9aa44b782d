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

/** Streams to which nobody listens any longer, such as those into `head`: the work goes on without. */
export function ignoreClosedPipes(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
    });
  }
}

/** Takes the line of the cursor away. */
const CLEAR_LINE = '\r\x1b[K';

/** Control characters but tab and line feed, and those that turn the direction of writing. */
const UNPRINTABLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g;

/**
 * Text for a terminal: names out of files may hold control characters, which would move the cursor or
 * change colours. Line feeds and tabs stay, and so does a {@link Progress} line's beginning. JSON stays JSON.
 */
export function printable(text: string): string {
  if (text.startsWith(CLEAR_LINE)) return CLEAR_LINE + printable(text.slice(CLEAR_LINE.length));
  return text.replace(UNPRINTABLE, (character) => {
    const code = character.charCodeAt(0).toString(16);
    // JSON has no \x, and no control characters below 0x20 by itself.
    return character < ' ' ? `\\x${code.padStart(2, '0')}` : `\\u${code.padStart(4, '0')}`;
  });
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

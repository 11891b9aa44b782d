// The output of a command: results go to standard output, progress and remarks to standard error.

/** The two streams of a process, or replacements of them by a test. */
export interface Streams {
  out: (text: string) => void;
  err: (text: string) => void;
  /** Whether standard error is a terminal, where a line can be overwritten. */
  tty: boolean;
}

/** The streams of this process. */
export const processStreams: Streams = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  tty: process.stderr.isTTY === true,
};

/** Ignores streams that are closed, such as a pipe into `head`: the work continues without them. */
export function ignoreClosedPipes(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
    });
  }
}

/** Erases the line of the cursor. */
const CLEAR_LINE = '\r\x1b[K';

/** Control characters except tab and line feed, and characters that change the direction of text. */
const UNPRINTABLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g;

/**
 * Text for a terminal: names in files may hold control characters, which would move the cursor or change
 * colors. Line feeds, tabs and the beginning of a {@link Progress} line stay, and JSON stays JSON.
 */
export function printable(text: string): string {
  if (text.startsWith(CLEAR_LINE)) return CLEAR_LINE + printable(text.slice(CLEAR_LINE.length));
  return text.replace(UNPRINTABLE, (character) => {
    const code = character.charCodeAt(0).toString(16);
    // JSON has no \x, and escapes control characters below 0x20 itself.
    return character < ' ' ? `\\x${code.padStart(2, '0')}` : `\\u${code.padStart(4, '0')}`;
  });
}

/** Streams that write {@link printable} text. */
export function printableStreams({ out, err, tty }: Streams): Streams {
  return { out: (text) => out(printable(text)), err: (text) => err(printable(text)), tty };
}

/** One line that is overwritten while work continues; silent unless on a terminal. */
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

  /** Erases the line. */
  clear(): void {
    if (this.#shown) this.streams.err(CLEAR_LINE);
    this.#shown = false;
  }
}

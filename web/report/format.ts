// Formats numbers and tables for people.

/** Bytes in decimal units, such as "331.6 kB". */
export function formatBytes(bytes: number): string {
  if (!(bytes >= 1000)) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(1)} kB`;
  return `${(bytes / 1e6).toFixed(2)} MB`;
}

/** A ratio in dB, such as "41.3 dB", or "exact" where there is no error. */
export function formatDb(snr: number | null | undefined): string {
  if (snr === undefined) return '-';
  return snr === null ? 'exact' : `${snr.toFixed(1)} dB`;
}

/** A share, such as "94.50 %", or "-" where it is unknown. */
export function formatShare(share: number | null): string {
  return share === null ? '-' : `${(share * 100).toFixed(2)} %`;
}

/** Milliseconds, such as "1.234 ms". */
export function formatMs(milliseconds: number): string {
  return `${milliseconds < 100 ? milliseconds.toFixed(3) : milliseconds.toFixed(1)} ms`;
}

/** A number with three significant digits, without an exponent where that is readable. */
export function formatNumber(value: number): string {
  if (value === 0) return '0';
  const size = Math.abs(value);
  return size >= 1e-4 && size < 1e6 ? String(Number(value.toPrecision(3))) : value.toExponential(2);
}

/**
 * A name or a message from a file, on one line: characters that would end it are escaped as in JavaScript.
 */
export function oneLine(text: string): string {
  const spelled: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };
  return text.replace(/[\n\r\t]/g, (character) => spelled[character]!);
}

/** The width that tables keep to, as far as their names can be shortened. */
const TABLE_WIDTH = 140;
const SHORTEST_NAME = 16;

/** Narrows the widest of the columns in `left` until all fit. */
function fit(widths: number[], left: readonly number[]): void {
  let over = widths.reduce((sum, width) => sum + width + 2, -2) - TABLE_WIDTH;
  for (; over > 0; over--) {
    const widest = left.reduce((best, column) => (widths[column]! > widths[best]! ? column : best));
    if (widths[widest]! <= SHORTEST_NAME) return;
    widths[widest]!--;
  }
}

/**
 * Columns of equal width; the first is flush left, and so are those in `left`, the others are flush right.
 * Where the table would be wider than 140 characters, columns in `left` are shortened.
 */
export function table(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  left: readonly number[] = [0],
): string {
  const all = (header.some(Boolean) ? [header, ...rows] : rows).map((row) => row.map(oneLine));
  const widths = header.map((_, column) =>
    Math.max(...all.map((row) => (row[column] ?? '').length), 0),
  );
  if (left.length > 0) fit(widths, left);
  const lines = all.map((row) =>
    widths
      .map((width, column) => {
        const cell = shorten(row[column] ?? '', width);
        return left.includes(column) ? cell.padEnd(width) : cell.padStart(width);
      })
      .join('  ')
      .trimEnd(),
  );
  if (header.some(Boolean)) lines.splice(1, 0, widths.map((width) => '-'.repeat(width)).join('  '));
  return lines.join('\n');
}

/** Shortens a name to its end, which tells most, behind three dots. */
export function shorten(name: string, width: number): string {
  return name.length <= width ? name : `...${name.slice(name.length - width + 3)}`;
}

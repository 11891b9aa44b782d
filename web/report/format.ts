// Numbers and tables for people.

/** "331.6 kB" (decimal units). */
export function formatBytes(bytes: number): string {
  if (!(bytes >= 1000)) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(1)} kB`;
  return `${(bytes / 1e6).toFixed(2)} MB`;
}

/** "41.3 dB", or "exact" where there is no error. */
export function formatDb(snr: number | null | undefined): string {
  if (snr === undefined) return '-';
  return snr === null ? 'exact' : `${snr.toFixed(1)} dB`;
}

/** "94.50 %", or "-" where it is not known. */
export function formatShare(share: number | null): string {
  return share === null ? '-' : `${(share * 100).toFixed(2)} %`;
}

/** "1.234 ms". */
export function formatMs(milliseconds: number): string {
  return `${milliseconds < 100 ? milliseconds.toFixed(3) : milliseconds.toFixed(1)} ms`;
}

/** Three significant digits, without an exponent where that is readable. */
export function formatNumber(value: number): string {
  if (value === 0) return '0';
  const size = Math.abs(value);
  return size >= 1e-4 && size < 1e6 ? String(Number(value.toPrecision(3))) : value.toExponential(2);
}

/** Columns of equal width; the first column is flush left, the others right unless named in `left`. */
export function table(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  left: readonly number[] = [0],
): string {
  const all = header.some(Boolean) ? [header, ...rows] : rows;
  const widths = header.map((_, column) =>
    Math.max(...all.map((row) => (row[column] ?? '').length), 0),
  );
  const lines = all.map((row) =>
    widths
      .map((width, column) => {
        const cell = row[column] ?? '';
        return left.includes(column) ? cell.padEnd(width) : cell.padStart(width);
      })
      .join('  ')
      .trimEnd(),
  );
  if (header.some(Boolean)) lines.splice(1, 0, widths.map((width) => '-'.repeat(width)).join('  '));
  return lines.join('\n');
}

/** A name that fits: its end, which tells most, after three dots. */
export function shorten(name: string, width: number): string {
  return name.length <= width ? name : `...${name.slice(name.length - width + 3)}`;
}

// Writes the report of verify() for a terminal.

import type { Likeness, VerifyReport } from '../analyze/verification.js';
import { formatDb, formatNumber, formatShare, oneLine, shorten, table } from './format.js';

const exactly = (value: number) => String(Number(value.toPrecision(7)));

/** The report as plain text. `engine` is the other engine's name. */
export function formatVerification(report: VerifyReport, engine = 'engine'): string {
  const { samples, sameSamples, outputs, worst, floatOperators } = report;
  const row = (name: string, { snr, maxAbs, sameTop1 }: Likeness) => [
    name,
    formatDb(snr),
    formatNumber(maxAbs),
    formatShare(sameTop1),
  ];
  const parts = [
    `${samples} samples, ${sameSamples} with the same numbers in both engines`,
    table(
      ['', 'SNR', 'max difference', 'same top-1'],
      [
        row(`quantized, requant and ${engine}`, report.engines),
        row('float and quantized, requant', report.requant),
        row(`float and quantized, ${engine}`, report.engine),
      ],
    ),
    table(
      ['output', 'elements', 'the same', 'SNR', 'max difference'],
      outputs.map(({ name, elements, same, snr, maxAbs }) => [
        shorten(name, 36),
        String(elements),
        String(same),
        formatDb(snr),
        formatNumber(maxAbs),
      ]),
    ),
  ];
  if (worst.length > 0) {
    parts.push(
      `The ${worst.length} samples that differ most, each by its worst element`,
      table(
        ['sample', 'element', 'float', 'requant', engine, 'top-1'],
        worst.map(({ sample, output, index, float, requant, engine: theirs, top1 }) => [
          String(sample),
          `${shorten(output, 28)}[${index}]`,
          exactly(float),
          exactly(requant),
          exactly(theirs),
          top1.join(' '),
        ]),
        [1],
      ),
    );
  }
  if (floatOperators.length > 0) {
    const names = floatOperators
      .slice(0, 4)
      .map((name) => shorten(oneLine(name), 36))
      .join(', ');
    const more = floatOperators.length > 4 ? ', ...' : '';
    parts.push(
      `${floatOperators.length} operators compute in float before others in integers (${names}${more}): ` +
        'the last bits of floats differ between engines, and codes with them.',
    );
  }
  return parts.join('\n\n');
}

// What a caller has changed in the record of a quantized model.

import { invalidArgument, show } from '../base/errors.js';
import { MOST_INT, checkInteger, checkKind, suggest } from '../base/options.js';
import type { CoreSlotEdit } from '../core.js';
import {
  type OperatorRecord,
  type QuantizationRecord,
  type TensorRecord,
  checkRecord,
} from './record.js';
import { numbers } from './tensor_options.js';

const EDITABLE = [
  'scale',
  'offset',
  'zeroPoint',
  'quantMin',
  'quantMax',
  'bits',
  'rounding',
  'policy',
  'range',
  'state',
];

type Fields = Record<string, unknown>;

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

/** The zero points as a list; a number stands for all scales. */
function pointsOf(value: unknown, count: number, name: string): number[] {
  const points =
    typeof value === 'number' ? Array<number>(count).fill(value) : numbers(value, name);
  points.forEach((point, at) => checkInteger(point, -MOST_INT - 1, MOST_INT, `${name}[${at}]`));
  return points;
}

function offsetEdit(slot: Fields, own: Fields, scales: number, name: string): number[] | undefined {
  const old = own.offset as number | number[] | undefined;
  const { offset, zeroPoint } = slot;
  if (zeroPoint !== undefined && offset !== undefined && !same(offset, old)) {
    throw invalidArgument(`${name} has offset and zeroPoint`, `${name}.zeroPoint`, 'Change one.');
  }
  const key = zeroPoint === undefined ? 'offset' : 'zeroPoint';
  const wanted = slot[key];
  // Whoever removes the zero point leaves it to the scale, which is checked.
  if (wanted === undefined || same(wanted, old)) return undefined;
  const points = pointsOf(wanted, scales, `${name}.${key}`);
  return same(points, old) ? undefined : points;
}

function slotEdit(slot: Fields, own: Fields, name: string): Partial<CoreSlotEdit> | undefined {
  const edit: Partial<CoreSlotEdit> = {};
  for (const key of new Set([...Object.keys(slot), ...Object.keys(own)])) {
    if (same(slot[key], own[key])) continue;
    if (!EDITABLE.includes(key)) {
      throw invalidArgument(
        key in own ? `${name}.${key} cannot be changed` : `${name} has no field "${key}"`,
        `${name}.${key}`,
        key in own ? `These can be: ${EDITABLE.join(', ')}.` : suggest(key, EDITABLE),
      );
    }
    const value = slot[key];
    const fieldName = `${name}.${key}`;
    if (key === 'quantMin' || key === 'quantMax' || key === 'bits') {
      checkKind(value, 'integer', fieldName);
      edit[key] = value as number;
    } else if (key === 'rounding' || key === 'policy' || key === 'state') {
      checkKind(value, 'string', fieldName);
      edit[key] = value as string;
    } else if (key === 'scale') {
      edit.scale = value === undefined || value === null ? [] : numbers(value, fieldName);
    } else if (key === 'range') {
      const range = numbers(value, fieldName);
      if (range.length !== 2) throw invalidArgument(`${fieldName} is ${show(value)}`, fieldName);
      [edit.rangeMin, edit.rangeMax] = range as [number, number];
    }
  }
  const scales = edit.scale ?? (own.scale as number[] | undefined) ?? [];
  const offset = offsetEdit(slot, own, scales.length, name);
  if (offset) edit.offset = offset;
  return Object.keys(edit).length > 0 ? edit : undefined;
}

/** Throws INVALID_ARGUMENT where a member of an operator differs that is none of its slots. */
function checkOperator(operator: OperatorRecord, own: OperatorRecord, name: string): void {
  for (const key of new Set([...Object.keys(operator), ...Object.keys(own)])) {
    if (key === 'inputs' || key === 'outputs') continue;
    const [edited, before] = [operator, own].map((one) => (one as unknown as Fields)[key]);
    if (same(edited, before)) continue;
    throw invalidArgument(
      `${name}.${key} cannot be changed`,
      `${name}.${key}`,
      'Slots can be; null in operators of the config keeps an operator in float.',
    );
  }
}

/**
 * @internal The slots of a record that differ from the model's own, and what differs. Throws INVALID_ARGUMENT,
 * naming it, for what is no record of this model and for members that cannot be changed.
 */
export function editsOf(edited: QuantizationRecord, own: QuantizationRecord): CoreSlotEdit[] {
  checkRecord(edited);
  if (edited.operators.length !== own.operators.length) {
    throw invalidArgument(
      `the record has ${edited.operators.length} operators, and the model ${own.operators.length}`,
      'record.operators',
      'Give the record of this model.',
    );
  }
  const edits: CoreSlotEdit[] = [];
  edited.operators.forEach((operator, index) => {
    const before = own.operators[index]!;
    const name = `operators[${index}]`;
    checkOperator(operator, before, name);
    for (const key of ['inputs', 'outputs'] as const) {
      const [slots, olds] = [operator[key], before[key]];
      if (slots.length !== olds.length) {
        throw invalidArgument(
          `${name}.${key} has ${slots.length} slots, not ${olds.length}`,
          `${name}.${key}`,
        );
      }
      slots.forEach((slot: TensorRecord | null, at) => {
        const old = olds[at] ?? null;
        const slotName = `${name}.${key}[${at}]`;
        if (slot === null || old === null) {
          if (slot === old) return;
          throw invalidArgument(`${slotName} is ${show(slot)}, not ${show(old)}`, slotName);
        }
        checkKind(slot, 'object', slotName);
        const edit = slotEdit(slot as unknown as Fields, old as unknown as Fields, slotName);
        if (edit) edits.push({ node: operator.name, output: key === 'outputs', slot: at, ...edit });
      });
    }
  });
  return edits;
}

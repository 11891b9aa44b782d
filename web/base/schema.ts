// Options as tables: a row says what values an option takes, and the comment over it what the option means. Types,
// checks and the tables of docs/api.md (web/scripts/option_tables.mjs) follow from the rows.

import { invalidArgument } from './errors.js';
import { MOST_INT, checkInteger, checkOneOf, checkOptions } from './options.js';

/** An option that is true or false. */
export interface Flag {
  readonly kind: 'boolean';
}

/** An integer in a range, both ends included. */
export interface Integer {
  readonly kind: 'integer';
  readonly from: number;
  readonly to: number;
}

/** A number in a range, in words and as a test. */
export interface Range {
  readonly kind: 'number';
  readonly range: string;
  readonly has: (value: number) => boolean;
}

/** One of these names. */
export interface Choice<T extends string> {
  readonly kind: 'string';
  readonly of: readonly T[];
}

/** An array of these names. */
export interface Choices<T extends string> {
  readonly kind: 'strings';
  readonly of: readonly T[];
}

/** A value of this type, whose reader checks more than its kind. */
export interface Other<T> {
  readonly kind: 'any' | 'function' | 'object' | 'signal';
  /** What the option takes, in words. */
  readonly values: string;
  /** Only a type: there is no such member. */
  readonly type?: T;
}

/** One option of a table. */
export type Row = Flag | Integer | Range | Choice<string> | Choices<string> | Other<unknown>;

/** Options by name. */
export type Schema = Readonly<Record<string, Row>>;

type ValueOf<R> =
  R extends Choice<infer T>
    ? T
    : R extends Choices<infer T>
      ? readonly T[]
      : R extends Other<infer T>
        ? T
        : R extends Flag
          ? boolean
          : number;

/** The options that a table accepts; each may be left out. */
export type ConfigOf<S> = { -readonly [K in keyof S]?: ValueOf<S[K]> };

/** @internal A row for true or false. */
export const flag: Flag = { kind: 'boolean' };

/** @internal A row for integers. */
export const integer = (from: number, to = MOST_INT): Integer => ({ kind: 'integer', from, to });

/** @internal A row for numbers. `range` says in words what `has` tests. */
export const number = (range: string, has: (value: number) => boolean): Range => ({
  kind: 'number',
  range,
  has,
});

/** @internal A row for one of these names. */
export const choice = <const T extends string>(...of: T[]): Choice<T> => ({ kind: 'string', of });

/** @internal A row for several of these names. */
export const choices = <const T extends string>(...of: T[]): Choices<T> => ({
  kind: 'strings',
  of,
});

/** @internal A row for a value whose reader checks more than its kind. */
export const other = <T>(kind: Other<T>['kind'] = 'object', values = 'an object'): Other<T> => ({
  kind,
  values,
});

/** @internal The options of a table, without others. */
export function pick<T extends object, S extends Schema>(
  options: T,
  schema: S,
): Pick<T, keyof T & keyof S> {
  const known = Object.entries(options).filter(([key]) => Object.hasOwn(schema, key));
  return Object.fromEntries(known) as Pick<T, keyof T & keyof S>;
}

/** Throws INVALID_ARGUMENT for a value outside a row; whether it is of the row's kind is known. */
function checkValue(value: unknown, row: Row, name: string): void {
  if (row.kind === 'integer') checkInteger(value, row.from, row.to, name);
  if (row.kind === 'string') checkOneOf(value, row.of, name);
  if (row.kind === 'strings') {
    (value as string[]).forEach((item, index) => checkOneOf(item, row.of, `${name}[${index}]`));
  }
  if (row.kind === 'number' && !row.has(value as number)) {
    throw invalidArgument(`${name} is ${String(value)}`, name, `It must be ${row.range}.`);
  }
}

/** @internal Throws INVALID_ARGUMENT for unknown keys and for values outside their rows; undefined is absent. */
export function checkSchema(options: unknown, schema: Schema, name: string): void {
  const kinds = Object.fromEntries(Object.entries(schema).map(([key, { kind }]) => [key, kind]));
  checkOptions(options, kinds, name);
  for (const [key, value] of Object.entries(options as object)) {
    if (value !== undefined) checkValue(value, schema[key]!, `${name}.${key}`);
  }
}

// Compares web/core.d.ts with the built core: the functions and classes that Embind registers must be those
// of the declarations, in both directions.

import assert from 'node:assert/strict';
import path from 'node:path';
import { before, test } from 'node:test';
import ts from 'typescript';
import { loadCore, loadTools } from '../../dist/engine/load_core.js';
import { ROOT } from './support.mjs';

const FILE = path.join(ROOT, 'web/core.d.ts');
const program = ts.createProgram([FILE], {
  strict: true,
  lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
});
const checker = program.getTypeChecker();
const source = program.getSourceFile(FILE);

let core;
before(async () => {
  core = await loadCore();
  await loadTools(core);
});

/** The number of arguments of a function; a rest parameter that is a tuple counts with its length. */
function parametersOf(signature) {
  return signature.parameters.reduce((count, parameter) => {
    const type = checker.getTypeOfSymbol(parameter);
    const rest = parameter.valueDeclaration.dotDotDotToken;
    return count + (rest ? checker.getTypeArguments(type).length : 1);
  }, 0);
}

/** The members of an interface: the number of arguments of functions, 'value' for others. */
function declared(name) {
  const node = source.statements.find(
    (statement) => ts.isInterfaceDeclaration(statement) && statement.name.text === name,
  );
  assert.ok(node, `core.d.ts declares no ${name}`);
  const members = checker.getTypeAtLocation(node).getProperties();
  return Object.fromEntries(
    members.map((member) => {
      const [signature] = checker.getTypeOfSymbol(member).getCallSignatures();
      return [member.name, signature ? parametersOf(signature) : 'value'];
    }),
  );
}

/** The members of an object that Embind made, for the names given. */
function registered(object, names) {
  return Object.fromEntries(
    names.map((name) => {
      const { get, value } = Object.getOwnPropertyDescriptor(object, name);
      if (get) return [name, 'value'];
      assert.equal(
        typeof value?.argCount,
        'number',
        `Embind says no number of arguments of ${name}`,
      );
      return [name, value.argCount];
    }),
  );
}

/**
 * The classes and functions that Embind put into the module: a class has a prototype with names, a function a
 * number of arguments.
 */
function ofEmbind() {
  const values = Object.entries(core).filter(([, value]) => typeof value === 'function');
  const classes = values.filter(([, value]) => value.prototype?.delete !== undefined);
  const functions = values.filter(([, value]) => typeof value.argCount === 'number');
  return { classes, functions: functions.map(([name]) => name) };
}

test('functions', () => {
  const { classes, functions } = ofEmbind();
  const names = functions.filter((name) => !classes.some(([one]) => one === name));
  const all = declared('Core');
  // These are not Embind's: the memory, and a function that is called without it.
  const { HEAPU8, _run_bound, ...rest } = all;
  assert.deepEqual([HEAPU8, _run_bound], ['value', 1]);
  assert.equal(typeof core._run_bound, 'function');
  assert.ok(core.HEAPU8 instanceof Uint8Array);
  assert.deepEqual(registered(core, names.sort()), rest);
});

test('classes and their members', () => {
  const { classes } = ofEmbind();
  const named = classes.map(([name]) => name).sort();
  assert.ok(named.includes('Model') && named.includes('Trainer'));
  for (const [name, { prototype }] of classes) {
    const members = Object.getOwnPropertyNames(prototype).filter((one) => one !== 'constructor');
    const rest = declared(`Core${name}`);
    delete rest.delete; // Embind's own
    assert.deepEqual(registered(prototype, members.sort()), rest, name);
  }
  // Interfaces of objects with delete() are those of classes.
  const objects = source.statements
    .filter((statement) => ts.isInterfaceDeclaration(statement) && statement.heritageClauses)
    .map((statement) => statement.name.text);
  assert.deepEqual(objects.sort(), named.map((name) => `Core${name}`).sort());
});

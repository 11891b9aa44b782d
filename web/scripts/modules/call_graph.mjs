// Reads which functions of a module call which.

import binaryen from 'binaryen';
import { elementsOf, exportsOf, functionsOf } from './binaryen.mjs';

/** The operands of expressions, by the name of their kind: fields of binaryen.getExpressionInfo(). */
const OPERANDS = {
  Block: ['children'],
  If: ['condition', 'ifTrue', 'ifFalse'],
  Loop: ['body'],
  Break: ['condition', 'value'],
  Switch: ['condition', 'value'],
  Call: ['operands'],
  CallIndirect: ['target', 'operands'],
  LocalGet: [],
  LocalSet: ['value'],
  GlobalGet: [],
  GlobalSet: ['value'],
  Load: ['ptr'],
  Store: ['ptr', 'value'],
  Const: [],
  Unary: ['value'],
  Binary: ['left', 'right'],
  Select: ['ifTrue', 'ifFalse', 'condition'],
  Drop: ['value'],
  Return: ['value'],
  Nop: [],
  Unreachable: [],
  Pop: [],
  MemorySize: [],
  MemoryGrow: ['delta'],
  MemoryInit: ['dest', 'offset', 'size'],
  MemoryCopy: ['dest', 'source', 'size'],
  MemoryFill: ['dest', 'value', 'size'],
  DataDrop: [],
  SIMDExtract: ['vec'],
  SIMDReplace: ['vec', 'value'],
  SIMDShuffle: ['left', 'right'],
  SIMDTernary: ['a', 'b', 'c'],
  SIMDShift: ['vec', 'shift'],
  SIMDLoad: ['ptr'],
  SIMDLoadStoreLane: ['ptr', 'vec'],
  RefNull: [],
  RefIsNull: ['value'],
  RefFunc: [],
  RefEq: ['left', 'right'],
  TableGet: ['index'],
  TableSet: ['index', 'value'],
  Try: ['body', 'catchBodies'],
  Throw: ['operands'],
  Rethrow: [],
  TupleMake: ['operands'],
  TupleExtract: ['tuple'],
};
const KINDS = new Map(
  Object.entries(OPERANDS).map(([kind, operands]) => [binaryen[`${kind}Id`], { kind, operands }]),
);
/** Kinds without operands that getExpressionInfo() does not know. */
const BARE = new Set(['Unreachable', 'Pop', 'Nop']);

/** Calls visit(kind, info) for an expression and all of its operands. */
function walk(expression, visit) {
  const waiting = [expression];
  while (waiting.length > 0) {
    const next = waiting.pop();
    const id = binaryen.getExpressionId(next);
    const known = KINDS.get(id);
    if (!known) {
      const name = Object.keys(binaryen).find((key) => /Id$/.test(key) && binaryen[key] === id);
      throw new Error(`call_graph.mjs knows no operands of expressions of kind ${name ?? id}`);
    }
    if (BARE.has(known.kind)) continue;
    const info = binaryen.getExpressionInfo(next);
    visit(known.kind, info);
    // An operand that is left out is 0.
    for (const field of known.operands) waiting.push(...[info[field]].flat().filter(Boolean));
  }
}

/** The functions that an expression calls by name or takes the address of. */
function callsIn(expression) {
  const found = new Set();
  walk(expression, (kind, info) => {
    if (kind === 'Call') found.add(info.target);
    if (kind === 'RefFunc') found.add(info.name ?? info.func);
  });
  return found;
}

/**
 * `calls`: by function, the functions that it calls by name or takes the address of. `entered`: those that
 * are reached without a name, by exports or through a function table.
 */
export function readCalls(module) {
  const calls = new Map();
  for (const { name, body, module: origin } of functionsOf(module)) {
    if (!origin) calls.set(name, callsIn(body));
  }
  const exported = exportsOf(module).filter(({ isFunction }) => isFunction);
  const entered = [
    ...exported.map(({ value }) => value),
    ...elementsOf(module).flatMap(({ functions }) => functions),
  ];
  return { calls, entered };
}

// Decides which functions go into which module. What comes in and goes out is plain data.

/**
 * Functions that stay in the main module wherever they are defined: initializers of globals run at start, and
 * the table of all operators holds the rows of an operator family (SomeOps()).
 */
const STAYS = /^_GLOBAL__sub_I_|^__cxx_global_var_init|^_ZN7requant\d+\w+OpsEv$/;

/** The functions that only objects of one kind define. A template that others instantiate is not one. */
function ownedBy(calls, definitions, isOwn) {
  return new Set(
    [...calls.keys()].filter((name) => {
      const objects = definitions.get(name)?.objects;
      return !STAYS.test(name) && objects !== undefined && objects.every(isOwn);
    }),
  );
}

/**
 * The functions that `roots` need, themselves included, beyond `known`. `later` holds functions of modules
 * that are loaded after them: a call of one is an error, unless it is an inline function, which then goes to
 * its first user.
 */
function reach({ calls, definitions }, caller, roots, later, known = new Set()) {
  const found = new Set();
  const wrong = [];
  const waiting = [...roots];
  while (waiting.length > 0) {
    const name = waiting.pop();
    if (found.has(name) || !calls.has(name)) continue;
    found.add(name);
    for (const callee of calls.get(name)) {
      if (known.has(callee)) continue;
      if (definitions.get(callee)?.inline) later.delete(callee);
      if (later.has(callee)) wrong.push(`- ${name} calls ${callee}`);
      else waiting.push(callee);
    }
  }
  if (wrong.length > 0) {
    throw new Error(
      [
        `${caller} would call functions that are loaded later:`,
        ...wrong,
        'Call them through a LateFunction (src/base/late_function.h), or take their source off the list.',
      ].join('\n'),
    );
  }
  return found;
}

/**
 * The manifest { main, operators, tools }: the names of each module's functions. Modules are loaded in this
 * order, and one may call only those before it by name.
 *
 * - `graph` is the whole core: { calls, entered } (call_graph.mjs).
 * - `definitions` has by function { objects, inline }: the objects that define it, and whether several may.
 * - `isOperator` and `isTool` tell whether an object belongs to the sources of that module.
 *
 * A function goes to a later module if only sources of that module define it, or if only functions of that
 * module call it. Whatever can be entered from outside, by an export or a table, and is not of a later
 * source is the main module's.
 */
export function makeManifest({ calls, entered }, definitions, { isOperator, isTool }) {
  const graph = { calls, definitions };
  const tools = ownedBy(calls, definitions, isTool);
  const late = ownedBy(calls, definitions, (object) => isTool(object) || isOperator(object));
  const main = reach(
    graph,
    'the main module',
    entered.filter((name) => !late.has(name)),
    late,
  );
  const operators = reach(
    graph,
    'the operators',
    [...late].filter((name) => !tools.has(name)),
    tools,
    main,
  );
  const rest = [...calls.keys()].filter((name) => !main.has(name) && !operators.has(name));
  return { main: [...main], operators: [...operators], tools: rest };
}

/**
 * The manifest as a file in the form of `wasm-split --multi-split --manifest`: of each module that is split
 * off, its name and its functions, a line each, and an empty line before the next.
 */
export function manifestText({ operators, tools }) {
  const part = (name, functions) => `${[name, ...functions].join('\n')}\n`;
  return [part('operators', operators), part('tools', tools)].join('\n');
}

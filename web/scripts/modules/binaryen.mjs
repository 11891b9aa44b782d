// Reads and writes WebAssembly modules by the `binaryen` package.

import binaryen from 'binaryen';

const { Features } = binaryen;
/** The features of our modules. Others would let binaryen choose encodings that few engines read. */
export const FEATURES =
  Features.SIMD128 |
  Features.RelaxedSIMD |
  Features.BulkMemory |
  Features.SignExt |
  Features.MutableGlobals |
  Features.NontrappingFPToInt |
  Features.Multivalue |
  Features.ReferenceTypes |
  Features.ExceptionHandling;

/** The module in these bytes; dispose() frees it. */
export function readModule(bytes) {
  const module = binaryen.readBinary(bytes);
  module.setFeatures(FEATURES);
  return module;
}

/**
 * The bytes of a module, with the names of its functions if `names` is set. Binaryen's tree of expressions
 * has no room for all that `wasm-opt` did; the same last passes over the stack machine's code, which these
 * options ask for, bring it back: what was optimized stays within a tenth of a percent of its size.
 */
export function writeModule(module, names = false) {
  binaryen.setOptimizeLevel(2);
  binaryen.setShrinkLevel(1);
  binaryen.setGenerateStackIR(true);
  binaryen.setOptimizeStackIR(true);
  binaryen.setDebugInfo(names);
  return Buffer.from(module.emitBinary());
}

const each = (count, read) => Array.from({ length: count }, (_, index) => read(index));

/** The functions, [{ name, module, base, params, results, body }]; `module` is empty unless it is an import. */
export function functionsOf(module) {
  return each(module.getNumFunctions(), (index) =>
    binaryen.getFunctionInfo(module.getFunctionByIndex(index)),
  );
}

/** The globals, [{ name, module, base }]; `module` is empty unless it is an import. */
export function globalsOf(module) {
  return each(module.getNumGlobals(), (index) =>
    binaryen.getGlobalInfo(module.getGlobalByIndex(index)),
  );
}

/** The tables, [{ name, module, base }]; `module` is empty unless it is an import. */
export function tablesOf(module) {
  return each(module.getNumTables(), (index) =>
    binaryen.getTableInfo(module.getTableByIndex(index)),
  );
}

/** The exports, [{ name, isFunction, value }]; `value` is the name inside of the module. */
export function exportsOf(module) {
  return each(module.getNumExports(), (index) => {
    const { name, kind, value } = binaryen.getExportInfo(module.getExportByIndex(index));
    return { name, isFunction: kind === binaryen.ExternalFunction, value };
  });
}

/** The segments of function tables, [{ name, table, first, functions }]. */
export function elementsOf(module) {
  return each(module.getNumElementSegments(), (index) => {
    const segment = binaryen.getElementSegmentInfo(module.getElementSegmentByIndex(index));
    const { value } = binaryen.getExpressionInfo(segment.offset);
    if (typeof value !== 'number') {
      throw new Error(`the table segment ${segment.name} begins at no constant entry`);
    }
    return { name: segment.name, table: segment.table, first: value, functions: segment.data };
  });
}

/** The C of src/codegen/c by the names of its files: written by web/scripts/build.mjs. */
export declare const kernels: Readonly<Record<string, string>>;

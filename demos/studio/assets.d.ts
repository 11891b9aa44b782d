// Files that Vite turns into addresses.

declare module '*?url' {
  const address: string;
  export default address;
}

// Samples of other packages that the build found (web/scripts/studio_samples.mjs).
declare module 'virtual:samples' {
  /** The addresses of files, in their order; nothing for a sample that the build did not have. */
  export const found: { readonly faces?: readonly string[]; readonly wake?: readonly string[] };
}

// LiteRT's modules have no types: each exports the function that starts it.
declare module '@litertjs/core/wasm/litert_wasm_internal.js' {
  const factory: () => Promise<object>;
  export default factory;
}
declare module '@litertjs/core/wasm/litert_wasm_compat_internal.js' {
  const factory: () => Promise<object>;
  export default factory;
}
declare module '@litertjs/core/wasm/litert_wasm_threaded_internal.js' {
  const factory: () => Promise<object>;
  export default factory;
}

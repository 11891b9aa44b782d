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

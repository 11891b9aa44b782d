// Where bundlers put the C that generateC() copies from, which the build writes. This is a file of its own, so that
// only what writes C brings the text into a bundle.

/** The address of the text; bundlers find it by exactly this form. */
export const cKernelsFile = () => new URL('./c_kernels.txt', import.meta.url);

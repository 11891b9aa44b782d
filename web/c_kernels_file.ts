// Tells bundlers where the C text is that generateC() copies from and the build writes. It is a file of its
// own, so that only code that writes C brings the text into a bundle.

/** The address of the text; bundlers find it by exactly this form. */
export const cKernelsFile = () => new URL('./c_kernels.txt', import.meta.url);

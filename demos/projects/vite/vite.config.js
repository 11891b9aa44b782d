// Threads need a cross-origin isolated page; a host must send the same headers.
const headers = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

export default {
  // The development server must leave the package's files where they are; a build needs no setting.
  optimizeDeps: { exclude: ['requant'] },
  server: { headers },
  preview: { headers },
};

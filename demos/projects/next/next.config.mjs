// Threads need a cross-origin isolated page.
const headers = [
  { key: 'Cross-Origin-Opener-Policy', value: 'same-origin' },
  { key: 'Cross-Origin-Embedder-Policy', value: 'require-corp' },
];

export default {
  headers: async () => [{ source: '/:path*', headers }],
  // Route handlers take the package from node_modules.
  serverExternalPackages: ['requant'],
};

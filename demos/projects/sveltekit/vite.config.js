import adapter from '@sveltejs/adapter-static';
import { sveltekit } from '@sveltejs/kit/vite';

// Threads need a cross-origin isolated page; a host must send the same headers.
const headers = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

export default {
  plugins: [sveltekit({ adapter: adapter() })],
  optimizeDeps: { exclude: ['requant'] },
  server: { headers },
  preview: { headers },
};

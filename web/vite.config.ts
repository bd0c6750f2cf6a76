import { svelte } from '@sveltejs/vite-plugin-svelte';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

// The gateway for `npm run dev`. The built page calls the gateway that served it.
const gateway = process.env.TREE_AGENT_GATEWAY ?? 'http://127.0.0.1:7400';

export default defineConfig({
  plugins: [svelte()],
  build: { target: 'es2022', sourcemap: false, chunkSizeWarningLimit: 900 },
  worker: { format: 'es' },
  resolve: {
    alias: {
      // Its form for browsers needs a document, and Markdown is read in a worker.
      'decode-named-character-reference': fileURLToPath(import.meta.resolve('decode-named-character-reference')),
    },
  },
  server: { proxy: { '^/treeagent\\.v1\\.': { target: gateway, changeOrigin: true } } },
});

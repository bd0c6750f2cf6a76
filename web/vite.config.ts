import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

// The gateway for `npm run dev`. The built page calls the gateway that served it.
const gateway = process.env.TREE_AGENT_GATEWAY ?? 'http://127.0.0.1:7400';

/** Writes a Brotli and a gzip form beside each text file, which the gateway serves as they are. */
const precompressed: Plugin = {
  name: 'precompressed',
  apply: 'build',
  closeBundle() {
    const dist = fileURLToPath(new URL('dist/', import.meta.url));
    for (const name of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
      if (!/\.(html|js|css|svg)$/.test(name)) continue;
      const text = readFileSync(dist + name);
      writeFileSync(`${dist}${name}.br`, brotliCompressSync(text));
      writeFileSync(`${dist}${name}.gz`, gzipSync(text, { level: 9 }));
    }
  },
};

export default defineConfig({
  plugins: [svelte(), precompressed],
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

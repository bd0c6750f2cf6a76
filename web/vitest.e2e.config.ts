import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['e2e/**/*.test.ts'],
    environment: 'node',
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 90_000,
    tags: [{ name: 'quick', description: 'part of make test, see e2e/quick.ts' }],
  },
});

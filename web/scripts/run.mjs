// Runs a TypeScript file in Node: `node scripts/run.mjs FILE [ARGS]`. Vite compiles it, as it does the app.
import { resolve } from 'node:path';
import { runnerImport } from 'vite';

const { module } = await runnerImport(resolve(process.argv[2]), { configFile: false, logLevel: 'error' });
await module.main(process.argv.slice(3));

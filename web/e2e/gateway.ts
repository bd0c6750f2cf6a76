// A real gateway: `tree-agent dev` on a free loopback port, with its own data directory.

import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Port } from './port';

const run = promisify(execFile);
export const BUF = new URL('../node_modules/.bin/buf', import.meta.url).pathname;
export const BINARY = process.env.TREE_AGENT_BIN ?? new URL('../../target/debug/tree-agent', import.meta.url).pathname;

interface UsageJson {
  inputTokens: number;
  outputTokens: number;
  cachedTokens: number;
  costMicros: number;
}

export interface GraphJson {
  status: string;
  seq: number;
  nodes: {
    id: string;
    title: string;
    status: string;
    parentId?: string | null;
    depth: number;
    usage: UsageJson;
    subtreeUsage: UsageJson;
  }[];
}

export class Gateway {
  url = '';
  readonly #options: string[];
  readonly #env: Record<string, string>;
  #data = '';
  #port: Port | undefined;
  #process: ChildProcess | undefined;

  /** Additional options and environment variables of `tree-agent dev`. */
  constructor(options: string[] = [], env: Record<string, string> = {}) {
    this.#options = options;
    this.#env = env;
  }

  async start(): Promise<void> {
    if (!existsSync(BINARY))
      throw new Error(`${BINARY} is not there: build it with "cargo build -p tree-agent-cli", or set TREE_AGENT_BIN`);
    if (this.#data === '') {
      this.#data = await mkdtemp(join(tmpdir(), 'tree-agent-web-'));
      this.#port = await Port.claim();
      this.url = `http://127.0.0.1:${this.#port.number}`;
    }
    const listen = this.url.replace('http://', '');
    this.#process = spawn(BINARY, ['dev', '--listen', listen, '--data-dir', this.#data, ...this.#options], {
      stdio: 'ignore',
      env: { ...process.env, ...this.#env },
    });
    const until = Date.now() + 60_000;
    for (;;) {
      const page = await fetch(this.url).then(
        (r) => r.text(),
        () => '',
      );
      if (page.includes('id="app"')) return;
      if (page.includes('was not built into this server'))
        throw new Error('the binary has no UI in it: build web first, then the binary');
      if (Date.now() > until) throw new Error(`${BINARY} dev did not answer on ${this.url} within a minute`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** Kills the process, as a crash does. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (child === undefined) return;
    this.#process = undefined;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await gone;
  }

  /** Deletes the data directory. */
  async wipe(): Promise<void> {
    await rm(this.#data, { recursive: true, force: true });
  }

  async stop(): Promise<void> {
    await this.kill();
    this.#port?.release();
    this.#port = undefined;
    if (this.#data !== '') await rm(this.#data, { recursive: true, force: true });
  }

  /** Runs a command against this gateway and returns its standard output. */
  async cli(...args: string[]): Promise<string> {
    const { stdout } = await run(BINARY, [...args, '--server', this.url], {
      maxBuffer: 64 << 20,
      env: { ...process.env, ...this.#env },
    }).catch((error: { stdout?: string; code?: number }) => ({ stdout: error.stdout ?? '' }));
    return stdout;
  }

  /** Stops, restores runs from the archives in `folder`, and starts again. */
  async restore(folder: string, runs: string[]): Promise<void> {
    await this.kill();
    await run(BINARY, ['log', 'restore', folder, ...runs, '--data-dir', this.#data]);
    await this.start();
  }

  /** Calls a method such as `RunService/GetRun` over gRPC and returns its answer. */
  async rpc(method: string, request: string): Promise<string> {
    const token = this.#env.TREE_AGENT_TOKEN;
    const header = token === undefined ? [] : ['-H', `authorization: Bearer ${token}`, '--reflect-header', '*'];
    const url = `${this.url}/treeagent.v1.${method}`;
    const { stdout } = await run(
      BUF,
      ['curl', '--protocol', 'grpc', '--http2-prior-knowledge', ...header, '-d', request, url],
      { maxBuffer: 64 << 20 },
    );
    return stdout;
  }

  /** The server's graph of a run, at its head or after an event. */
  async graph(run: string, seq?: number): Promise<GraphJson> {
    return JSON.parse(
      await this.cli('graph', run, '--format', 'json', ...(seq === undefined ? [] : ['--at', String(seq)])),
    ) as GraphJson;
  }

  /** Starts a run and returns its id without waiting for its end. */
  async run(objective: string, model: string, ...more: string[]): Promise<string> {
    const out = await this.cli('run', objective, '--model', model, '--detach', '-o', 'jsonl', ...more);
    return (JSON.parse(out.split('\n')[0]!) as { runId: string }).runId;
  }
}

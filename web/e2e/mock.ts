// A fake gateway that replays generated logs: for the benchmark, and for states that a real gateway does not produce on
// demand.

import { createReadStream, existsSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { extname, join } from 'node:path';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError, type ConnectRouter } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import type { CitedClaim } from '../src/gen/treeagent/v1/citations_pb';
import { RunStatus, Scope, Strategy } from '../src/gen/treeagent/v1/common_pb';
import { DocumentService } from '../src/gen/treeagent/v1/document_service_pb';
import { ProjectService } from '../src/gen/treeagent/v1/project_service_pb';
import {
  type Graph,
  RunSchema,
  RunService,
  type WatchRunResponse,
  WatchRunResponseSchema,
  type WatchRunsResponse,
  WatchRunsResponseSchema,
} from '../src/gen/treeagent/v1/run_service_pb';
import type { CommandOutcomeSchema, PauseRunRequest } from '../src/gen/treeagent/v1/steering_pb';
import { Projection } from '../src/lib/projection/projection';
import type { Log } from './logs';
import { documentService, type MockDocument } from './mock-documents';
import { toWire, usageToWire } from './to-wire';

const DIST = new URL('../dist/', import.meta.url).pathname;
const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};
/** The real gateway's policy. */
const POLICY =
  "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; worker-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export class MockGateway {
  readonly logs = new Map<string, Log>();
  readonly documents: MockDocument[] = [];
  /** Streams of runs deliver nothing, as behind a proxy that holds them back. */
  holdsBack = false;
  /** The citations of all runs. */
  readonly citations: CitedClaim[] = [];
  /** Answers pauses, in place of a driver. */
  pause: (request: PauseRunRequest) => MessageInitShape<typeof CommandOutcomeSchema> = () => {
    throw new ConnectError('nothing answers pauses here', Code.Unimplemented);
  };
  #wake: (() => void)[] = [];
  #closed = false;
  #server: Server | undefined;

  add(log: Log): Log {
    this.logs.set(log.run, log);
    return log;
  }

  /** Wakes the streams after a log has grown. */
  publish(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }

  async listen(): Promise<string> {
    const rpc = connectNodeAdapter({
      routes: (router) => this.#routes(router),
      connect: false,
      grpc: false,
      grpcWeb: true,
    });
    this.#server = createServer((req, res) => {
      if (req.url?.startsWith('/treeagent.v1.')) rpc(req, res);
      else serveFile(req.url ?? '/', res);
    });
    await new Promise<void>((resolve) => this.#server!.listen(0, '127.0.0.1', resolve));
    const address = this.#server.address();
    return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.publish();
    this.#server?.closeAllConnections();
    await new Promise<void>((resolve) =>
      this.#server === undefined ? resolve() : this.#server.close(() => resolve()),
    );
  }

  #log(runId: string): Log {
    const log = this.logs.get(runId);
    if (log === undefined) throw new ConnectError(`run_id: there is no run ${runId}`, Code.NotFound);
    return log;
  }

  #run(log: Log) {
    const graph = graphOf(log, log.head);
    return create(RunSchema, {
      runId: log.run,
      objective: log.events[0]!.body.case === 'runCreated' ? log.events[0]!.body.value.objective : '',
      strategy: Strategy.TREE,
      context: { scope: Scope.GLOBAL },
      status: {
        queued: RunStatus.QUEUED,
        running: RunStatus.RUNNING,
        paused: RunStatus.PAUSED,
        completed: RunStatus.COMPLETED,
        failed: RunStatus.FAILED,
        cancelled: RunStatus.CANCELLED,
      }[graph.status],
      headSeq: BigInt(log.head),
      nodeCount: BigInt(graph.nodes.length),
      usage: usageToWire(graph.stats.usage),
      createdAt: timestampFromMs(Date.now() - 120_000),
      updatedAt: timestampFromMs(Date.now()),
    });
  }

  async *#watch(log: Log, afterSeq: number, signal: AbortSignal): AsyncGenerator<WatchRunResponse> {
    const say = (message: WatchRunResponse['message']): WatchRunResponse => create(WatchRunResponseSchema, { message });
    if (this.holdsBack) await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    let seq = afterSeq;
    const head = log.head;
    let caughtUp = false;
    while (!signal.aborted) {
      while (seq < log.head) yield say({ case: 'event', value: log.events[seq++]! });
      if (!caughtUp && seq >= head) {
        caughtUp = true;
        yield say({ case: 'caughtUp', value: { $typeName: 'treeagent.v1.CaughtUp', seq: BigInt(seq) } });
      }
      if (this.#closed) throw new ConnectError('closed', Code.Unavailable);
      const last = log.events.at(-1)!.body;
      if (last.case === 'runStatus' && last.value.status >= RunStatus.COMPLETED) return;
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
  }

  async *#watchRuns(signal: AbortSignal): AsyncGenerator<WatchRunsResponse> {
    const say = (message: MessageInitShape<typeof WatchRunsResponseSchema>['message'] & object): WatchRunsResponse =>
      create(WatchRunsResponseSchema, { message });
    for (const log of this.logs.values()) yield say({ case: 'added', value: this.#run(log) });
    yield say({ case: 'caughtUp', value: { resumeToken: 'now' } });
    while (!signal.aborted) {
      await new Promise<void>((resolve) => this.#wake.push(resolve));
      if (this.#closed) throw new ConnectError('closed', Code.Unavailable);
      for (const log of this.logs.values()) yield say({ case: 'changed', value: this.#run(log) });
    }
  }

  #routes(router: ConnectRouter): void {
    router.service(RunService, {
      getRun: ({ runId }) => ({ run: this.#run(this.#log(runId)) }),
      listRuns: () => ({ runs: [...this.logs.values()].map((l) => this.#run(l)) }),
      listCitations: ({ nodeId, pageSize, pageToken }) => {
        const all = this.citations.filter((one) => nodeId === '' || one.nodeId === nodeId);
        const from = Number(pageToken || '0');
        const to = from + (pageSize || 100);
        return { claims: all.slice(from, to), nextPageToken: to < all.length ? String(to) : '' };
      },
      watchRuns: (_, context) => this.#watchRuns(context.signal),
      pauseRun: (request) => ({ outcome: this.pause(request) }),
      watchRun: (request, context) => this.#watch(this.#log(request.runId), Number(request.afterSeq), context.signal),
      getGraph: ({ runId }) => {
        const log = this.#log(runId);
        return { graph: snapshotOf(log, log.head) };
      },
      listEvents: ({ runId, afterSeq, pageSize }) => {
        const log = this.#log(runId);
        return {
          events: log.events.slice(Number(afterSeq), Number(afterSeq) + (pageSize || 100)),
          headSeq: BigInt(log.head),
        };
      },
    });
    router.service(DocumentService, documentService(this.documents));
    router.service(ProjectService, { listProjects: () => ({ projects: [] }) });
  }
}

const cache = new WeakMap<Log, Projection>();
const snapshots = new WeakMap<Log, Graph>();

function snapshotOf(log: Log, seq: number): Graph {
  let graph = snapshots.get(log);
  if (graph === undefined || Number(graph.seq) !== seq)
    snapshots.set(log, (graph = toWire(graphOf(log, seq).snapshot())));
  return graph;
}

function graphOf(log: Log, seq: number): Projection {
  let graph = cache.get(log);
  if (graph === undefined || graph.seq > seq) graph = new Projection(log.run);
  graph.applyEvents(log.events.slice(graph.seq, seq));
  cache.set(log, graph);
  return graph;
}

function serveFile(url: string, res: ServerResponse): void {
  const path = url.split('?')[0]!;
  const page = path === '/' || /^\/(runs|projects|compare)(\/|$)/.test(path);
  const file = join(DIST, page ? 'index.html' : path.replaceAll('..', ''));
  if (!existsSync(file)) {
    res.writeHead(404).end();
    return;
  }
  res.writeHead(200, {
    'content-type': TYPES[extname(file)] ?? 'application/octet-stream',
    'content-security-policy': POLICY,
  });
  createReadStream(file).pipe(res);
}

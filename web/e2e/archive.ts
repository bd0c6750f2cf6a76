// Runs beyond all budgets in a real store, restored from archives of ended runs.

import { createHash, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

/** An event as `events -o jsonl` prints it. */
export interface EventLine {
  runId: string;
  seq: number;
  nodeId: string;
  parentNodeId?: string | null;
  timestamp: string;
  type: string;
  payload: Record<string, unknown>;
}

const NAMESPACE = '6f0c2f0e4d5b4b3e9a517d1c52f0a9e4';

/** An id that is derived from its parts, as the contract derives it. */
function derived(label: string, ...parts: Buffer[]): string {
  const hash = createHash('sha1').update(Buffer.from(NAMESPACE, 'hex')).update(label);
  for (const part of parts) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.length);
    hash.update(length).update(part);
  }
  const bytes = hash.digest().subarray(0, 16);
  bytes[6] = (bytes[6]! & 0x0f) | 0x50;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

const raw = (id: string) => Buffer.from(id.replaceAll('-', ''), 'hex');

function number(n: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(n);
  return bytes;
}

const rootOf = (run: string) => derived('node', raw(run), Buffer.from('root'));
const childOf = (parent: string, version: number, step: string) =>
  derived('node', raw(parent), number(version), Buffer.from(step));
const artifactOf = (node: string, result: number, label: string) =>
  derived('artifact', raw(node), number(result), Buffer.from(label));

/** The log as another run would have written it: with the ids that follow from it. */
function of(run: string, like: EventLine[]): EventLine[] {
  const ids = new Map<string, string>([[like[0]!.runId, run]]);
  const numbers = [...Array(64).keys()];
  for (const { type, nodeId, parentNodeId, payload } of like) {
    if (type === 'tree.node_created') {
      const step = payload.stepId as string;
      const version = numbers.find((n) => parentNodeId && childOf(parentNodeId, n, step) === nodeId);
      ids.set(nodeId, parentNodeId ? childOf(ids.get(parentNodeId)!, version!, step) : rootOf(run));
    } else if (type === 'tree.artifact_created') {
      const [id, label] = [payload.artifactId as string, payload.label as string];
      const result = numbers.find((n) => artifactOf(nodeId, n, label) === id)!;
      const renamed = artifactOf(ids.get(nodeId)!, result, label);
      ids.set(id, renamed);
      ids.set(payload.documentId as string, derived('document', raw(renamed), Buffer.from('artifact')));
    }
  }
  let text = JSON.stringify(like);
  for (const [from, to] of ids) text = text.replaceAll(from, to);
  return JSON.parse(text) as EventLine[];
}

/**
 * The log of a run like an ended one, with more nodes inserted after its root. Each number is the index of a parent; 0
 * is the root. All ids are those that such a run would have.
 */
export function withNodes(like: EventLine[], parents: number[]): EventLine[] {
  const runId = randomUUID();
  const log = of(runId, like);
  const at = log.findIndex((event) => event.type === 'tree.node_created');
  const root = log[at]!;
  const ids = [root.nodeId];
  const depths = [0];
  const more = parents.map((parent, i) => {
    const stepId = `more${i + 1}`;
    const nodeId = childOf(ids[parent]!, 1, stepId);
    ids.push(nodeId);
    depths.push(depths[parent]! + 1);
    const payload = {
      ...root.payload,
      parentNodeId: ids[parent]!,
      title: `Node ${i + 1}`,
      depth: depths.at(-1),
      bandIndex: 0,
      stepIndex: i,
      stepId,
    };
    return { ...root, nodeId, parentNodeId: ids[parent]!, payload };
  });
  return [...log.slice(0, at + 1), ...more, ...log.slice(at + 1)].map((event, i) => ({ ...event, seq: i + 1 }));
}

/** Writes an archive for `tree-agent log restore` into `folder`. */
export async function writeArchive(folder: string, log: EventLine[]): Promise<void> {
  const { runId } = log[0]!;
  const head = {
    format: 'tree-agent-run',
    version: 1,
    runId,
    requestId: '',
    epoch: 1,
    headSeq: log.length,
    status: 'completed',
  };
  const events = log.map(({ runId: _, ...event }) => ({
    event: { ...event, parentNodeId: event.parentNodeId ?? null, id: randomUUID() },
  }));
  const lines = [{ run: head }, ...events].map((line) => `${JSON.stringify(line)}\n`).join('');
  const end = { events: events.length, documents: 0, sha256: createHash('sha256').update(lines).digest('hex') };
  await writeFile(join(folder, `${runId}.jsonl.gz`), gzipSync(`${lines}${JSON.stringify({ end })}\n`));
}

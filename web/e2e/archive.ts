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

/**
 * The log of a run like an ended one, with more nodes inserted after its root. Each number is the index of a parent; 0 is the
 * root. Its root has an id of its own: no two runs that are no forks share a node.
 */
export function withNodes(like: EventLine[], parents: number[]): EventLine[] {
  const rootId = like.find((event) => event.type === 'tree.node_created')!.nodeId;
  const log = JSON.parse(JSON.stringify(like).replaceAll(rootId, randomUUID())) as EventLine[];
  const at = log.findIndex((event) => event.type === 'tree.node_created');
  const root = log[at]!;
  const ids = [root.nodeId];
  const depths = [0];
  const more = parents.map((parent, i) => {
    const nodeId = randomUUID();
    ids.push(nodeId);
    depths.push(depths[parent]! + 1);
    const payload = { ...root.payload, title: `Node ${i + 1}`, depth: depths.at(-1), bandIndex: 0, stepIndex: i };
    return { ...root, nodeId, parentNodeId: ids[parent]!, payload };
  });
  const runId = randomUUID();
  return [...log.slice(0, at + 1), ...more, ...log.slice(at + 1)].map((event, i) => ({ ...event, runId, seq: i + 1 }));
}

/** Writes an archive for `tree-agent log restore` into `folder`. */
export async function writeArchive(folder: string, log: EventLine[]): Promise<void> {
  const { runId } = log[0]!;
  const head = { format: 'tree-agent-run', version: 1, runId, requestId: '', epoch: 1, headSeq: log.length, status: 'completed' };
  const events = log.map(({ runId: _, ...event }) => ({ event: { ...event, parentNodeId: event.parentNodeId ?? null, id: randomUUID() } }));
  const lines = [{ run: head }, ...events].map((line) => `${JSON.stringify(line)}\n`).join('');
  const end = { events: events.length, documents: 0, sha256: createHash('sha256').update(lines).digest('hex') };
  await writeFile(join(folder, `${runId}.jsonl.gz`), gzipSync(`${lines}${JSON.stringify({ end })}\n`));
}

// Converts the model to generated messages, for the fake gateway.

import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { ArtifactType, NodeStatus, Outcome, Role, RunStatus } from '../src/gen/treeagent/v1/common_pb';
import { GraphNodeSchema, GraphSchema, type Graph } from '../src/gen/treeagent/v1/run_service_pb';
import type { GraphNode, GraphSnapshot, Usage } from '../src/lib/projection/model';

const value = <T>(words: Record<string, T | string>, word: string): T => words[word.toUpperCase()] as T;

export const usageToWire = (u: Readonly<Usage>) =>
  Object.fromEntries(Object.entries(u).map(([key, v]) => [key, BigInt(v)]));

function node(n: GraphNode) {
  return create(GraphNodeSchema, {
    id: n.id,
    ...(n.parentId === undefined ? {} : { parentId: n.parentId }),
    title: n.title,
    reason: n.reason,
    successCriteria: n.successCriteria,
    status: value<NodeStatus>(NodeStatus, n.status),
    role: value<Role>(Role, n.role),
    depth: n.depth,
    ...(n.bandIndex === undefined ? {} : { bandIndex: n.bandIndex }),
    ...(n.stepIndex === undefined ? {} : { stepIndex: n.stepIndex }),
    ...(n.message === undefined ? {} : { message: n.message }),
    ...(n.error === undefined ? {} : { error: n.error }),
    ...(n.outcome === undefined ? {} : { outcome: value<Outcome>(Outcome, n.outcome) }),
    ...(n.scratchpadDocId === undefined ? {} : { scratchpadDocId: n.scratchpadDocId }),
    ...(n.scratchpadTail === undefined ? {} : { scratchpadTail: n.scratchpadTail }),
    ...(n.lastTool === undefined ? {} : { lastTool: n.lastTool }),
    artifacts: n.artifacts.map(({ artifactId, artifactType, documentId, label, title, isPrimary, citations }) => ({
      artifactId,
      artifactType: value<ArtifactType>(ArtifactType, artifactType),
      ...(documentId === undefined ? {} : { documentId }),
      label,
      title,
      isPrimary,
      ...(citations === undefined
        ? {}
        : {
            citations: {
              total: BigInt(citations.total),
              found: BigInt(citations.found),
              notFound: BigInt(citations.notFound),
              supported: BigInt(citations.supported),
              doubted: BigInt(citations.doubted),
              notChecked: BigInt(citations.notChecked),
            },
          }),
    })),
    ...(n.verification === undefined ? {} : { verification: n.verification }),
    ...(n.result === undefined ? {} : { result: { summary: n.result.summary } }),
    usage: usageToWire(n.usage),
    subtreeUsage: usageToWire(n.subtreeUsage),
    createdAt: timestampFromMs(n.createdAt),
    ...(n.startedAt === undefined ? {} : { startedAt: timestampFromMs(n.startedAt) }),
    ...(n.endedAt === undefined ? {} : { endedAt: timestampFromMs(n.endedAt) }),
  });
}

export function toWire(graph: GraphSnapshot): Graph {
  return create(GraphSchema, {
    runId: graph.runId,
    seq: BigInt(graph.seq),
    status: value<RunStatus>(RunStatus, graph.status),
    partial: graph.partial,
    nodes: graph.nodes.map(node),
  });
}

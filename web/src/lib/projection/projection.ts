// The graph of one run, folded from its events: the TypeScript counterpart of `crates/engine/src/graph.rs`.

import type { Event, LeafPicked } from '../../gen/treeagent/v1/events_pb';
import { applyToNode, createdNode, ReplayError, UnknownError, usageOf } from './apply';
import { Leases } from './leases';
import { ACTIVE_STATUSES, NO_USAGE, NODE_STATUSES, plus, statusIndex } from './model';
import type { GraphNode, GraphSnapshot, NodeStatus, RunStatus, Usage } from './model';
import { Shape } from './shape';
import { leafPick, runStatus, time } from './wire';

export interface Edge {
  readonly from: string;
  readonly to: string;
}

export interface Stats {
  readonly nodes: number;
  readonly byStatus: Readonly<Record<NodeStatus, number>>;
  /** Sums over all role calls of the run. */
  readonly usage: Readonly<Usage>;
  readonly maxDepth: number;
}

export class Projection {
  readonly runId: string;
  readonly shape: Shape;
  #nodes: GraphNode[] = [];
  #seq = 0;
  #status: RunStatus = 'queued';
  #partial = false;
  /** When a run that waits for the quota of its provider goes on by itself. */
  #goesOnAt: number | undefined;
  /** An event of an unknown type may have changed anything, also one that the maker of a snapshot did not know. */
  #unsure = false;
  #counts = new Int32Array(NODE_STATUSES.length);
  #maxDepth = 0;
  #pauses = 0;
  #leases: Leases;

  constructor(runId: string, shape = new Shape()) {
    this.runId = runId;
    this.shape = shape;
    this.#leases = new Leases(this.#nodes, shape);
  }

  static fromSnapshot(snapshot: GraphSnapshot, shape = new Shape()): Projection {
    const made = new Projection(snapshot.runId, shape);
    for (const node of snapshot.nodes) made.#push(node);
    made.#seq = snapshot.seq;
    made.#status = snapshot.status;
    made.#partial = snapshot.partial;
    made.#goesOnAt = snapshot.goesOnAt;
    made.#unsure = true;
    return made;
  }

  /** An independent copy. It costs one pointer per node. */
  clone(): Projection {
    const copy = new Projection(this.runId, this.shape);
    copy.#nodes = this.#nodes.slice();
    copy.#seq = this.#seq;
    copy.#status = this.#status;
    copy.#partial = this.#partial;
    copy.#goesOnAt = this.#goesOnAt;
    copy.#unsure = this.#unsure;
    copy.#counts = this.#counts.slice();
    copy.#maxDepth = this.#maxDepth;
    copy.#pauses = this.#pauses;
    copy.#leases = this.#leases.copy(copy.#nodes);
    return copy;
  }

  /** Applies the next event. If the event does not follow, it throws a `ReplayError` and changes nothing. */
  applyEvent(event: Event): void {
    if (event.runId !== this.runId)
      throw new ReplayError(`an event of run ${event.runId} was applied to run ${this.runId}`);
    const seq = Number(event.seq);
    if (seq !== this.#seq + 1)
      throw new ReplayError(`event ${seq} follows event ${this.#seq}; the log must be contiguous`);
    try {
      this.#applyBody(event);
    } catch (error) {
      // What it is about may have been created by an event that is unknown here.
      if (!this.#unsure || !(error instanceof UnknownError)) throw error;
    }
    this.#seq = seq;
  }

  applyEvents(events: Iterable<Event>): void {
    for (const event of events) this.applyEvent(event);
  }

  /** Takes over what a snapshot of a server lacks from the replay of the whole log. */
  learn(whole: Projection): void {
    this.#leases.learn(whole.#leases);
    for (const [at, { since }] of whole.#nodes.entries()) {
      const node = this.#nodes[at];
      if (node !== undefined && since !== undefined) this.#nodes[at] = { ...node, since: { ...since, ...node.since } };
    }
  }

  /** Shows another status of some nodes than the log gives. For copies that are only looked at. */
  pose(ids: Iterable<string>, status: NodeStatus): void {
    for (const id of ids) {
      const [at, node] = [this.position(id), this.node(id)];
      if (node !== undefined) this.#replace(at, node, { ...node, status });
    }
  }

  #applyBody(event: Event): void {
    switch (event.body.case) {
      case 'runCreated':
        return;
      case 'runForked':
        // The run that was forked had ended, and its fork goes on.
        if (event.body.value.goesOn) [this.#status, this.#partial] = ['running', false];
        this.#leases.forked(time(event.timestamp));
        return;
      case 'opaque':
      case undefined:
        this.#unsure = true;
        return;
      case 'runStatus':
        this.#status = runStatus(event.body.value.status);
        this.#partial ||= event.body.value.partial;
        this.#goesOnAt = event.body.value.goesOnAt && time(event.body.value.goesOnAt);
        return;
      case 'nodeCreated':
        this.#push(createdNode(event, event.body.value));
        this.#leases.created(this.#nodes.length - 1);
        return;
      default: {
        // The budget of the run.
        if (event.body.case === 'budgetExhausted' && event.parentNodeId === undefined) return;
        const at = this.position(event.nodeId);
        if (at < 0) throw new UnknownError(event, `node ${event.nodeId}`);
        const before = this.#nodes[at]!;
        const after = applyToNode(before, event);
        if (after !== before) this.#replace(at, before, after);
        this.#leases.apply(at, before, event);
        if (event.body.case === 'leafPicked') this.#pick(event, event.body.value);
        const usage = usageOf(event);
        if (usage !== undefined) this.#addUsage(at, usage);
      }
    }
  }

  /** An event of the root of a search about one of its topics. */
  #pick(event: Event, picked: LeafPicked): void {
    const at = this.position(picked.leafNodeId);
    if (at < 0) throw new UnknownError(event, `leaf ${picked.leafNodeId}`);
    const leaf = this.#nodes[at]!;
    this.#nodes[at] = { ...leaf, topic: { ...leaf.topic, picked: leafPick(picked) } };
  }

  #push(node: GraphNode): void {
    const at = this.shape.add(node.id, node.parentId);
    if (at !== this.#nodes.length) throw new ReplayError(`node ${node.id} was created twice or out of order`);
    this.#nodes.push(node);
    this.#counts[statusIndex(node.status)]! += 1;
    this.#maxDepth = Math.max(this.#maxDepth, node.depth);
    if (node.paused === true) this.#pauses += 1;
  }

  #replace(at: number, before: GraphNode, after: GraphNode): void {
    this.#nodes[at] = after;
    if (before.paused !== after.paused) this.#pauses += after.paused === true ? 1 : -1;
    if (before.status !== after.status) {
      this.#counts[statusIndex(before.status)]! -= 1;
      this.#counts[statusIndex(after.status)]! += 1;
    }
  }

  /** Adds to the sums of the node and of each of its ancestors, so the cost is the node's depth. */
  #addUsage(at: number, usage: Usage): void {
    this.#nodes[at] = { ...this.#nodes[at]!, usage: plus(this.#nodes[at]!.usage, usage) };
    for (let above = at; above >= 0; above = this.shape.parents[above]!)
      this.#nodes[above] = { ...this.#nodes[above]!, subtreeUsage: plus(this.#nodes[above]!.subtreeUsage, usage) };
  }

  /** The last event that was applied; 0 when there was none. */
  get seq(): number {
    return this.#seq;
  }

  get status(): RunStatus {
    return this.#status;
  }

  get goesOnAt(): number | undefined {
    return this.#goesOnAt;
  }

  get partial(): boolean {
    return this.#partial;
  }

  /** How many nodes are paused by themselves. */
  get pauses(): number {
    return this.#pauses;
  }

  /** All nodes in order of creation, the root first. */
  get nodes(): readonly GraphNode[] {
    return this.#nodes;
  }

  /** The position of a node that exists at this point in time, or -1. */
  position(id: string): number {
    const at = this.shape.position(id);
    return at < this.#nodes.length ? at : -1;
  }

  node(id: string): GraphNode | undefined {
    const at = this.position(id);
    return at < 0 ? undefined : this.#nodes[at];
  }

  /** Children of the node at a position, in order of creation. */
  childrenOf(at: number): readonly number[] {
    const all = this.shape.children[at] ?? [];
    const last = all.at(-1);
    return last === undefined || last < this.#nodes.length ? all : all.filter((child) => child < this.#nodes.length);
  }

  /** True if the node has children at this point in time. */
  hasChildren(id: string): boolean {
    const at = this.position(id);
    return at >= 0 && this.childrenOf(at).length > 0;
  }

  get edges(): Edge[] {
    return this.#nodes.flatMap((n) => (n.parentId === undefined ? [] : [{ from: n.parentId, to: n.id }]));
  }

  get activeNodeIds(): string[] {
    return this.#nodes.filter((n) => ACTIVE_STATUSES.has(n.status)).map((n) => n.id);
  }

  get stats(): Stats {
    const byStatus = Object.fromEntries(NODE_STATUSES.map((s, i) => [s, this.#counts[i]!])) as Record<
      NodeStatus,
      number
    >;
    return {
      nodes: this.#nodes.length,
      byStatus,
      maxDepth: this.#maxDepth,
      usage: this.#nodes[0]?.subtreeUsage ?? NO_USAGE,
    };
  }

  snapshot(): GraphSnapshot {
    return {
      runId: this.runId,
      seq: this.#seq,
      status: this.#status,
      partial: this.#partial,
      ...(this.#goesOnAt !== undefined && { goesOnAt: this.#goesOnAt }),
      nodes: this.#nodes.map(({ since: _, ...node }) => node),
    };
  }
}

// What users see of leases, the budgets of subtrees: the TypeScript counterpart of `crates/engine/src/graph/leases.rs`.

import type { Event } from '../../gen/treeagent/v1/events_pb';
import { FINAL, subtreeUse } from './model';
import type { GraphNode, Lease, SubtreeBudget, Usage } from './model';
import type { Shape } from './shape';
import { nodeStatus, stepStatus, subtreeBudget, tidy, time } from './wire';

/** Since when the use of a node counts, and what it was then. */
interface Counted {
  since: number;
  usage: Readonly<Usage>;
}

const NOTHING = { tokens: 0, costMicros: 0, toolCalls: 0 };

const isEmpty = (limits: SubtreeBudget): boolean => Object.values(limits).every((limit) => limit === undefined);

/** Keeps the leases of a list of nodes up to date. */
export class Leases {
  readonly #nodes: GraphNode[];
  readonly #shape: Shape;
  /** Of nodes that were reopened or were open at a fork. Graphs from a server do not say it: see `learn`. */
  #counted: Map<number, Counted>;

  constructor(nodes: GraphNode[], shape: Shape, counted: Map<number, Counted> = new Map()) {
    this.#nodes = nodes;
    this.#shape = shape;
    this.#counted = counted;
  }

  /** The same for a copy of the nodes. */
  copy(nodes: GraphNode[]): Leases {
    return new Leases(nodes, this.#shape, new Map(this.#counted));
  }

  /** Takes over what the replay of the whole log knows. */
  learn(whole: Leases): void {
    this.#counted = new Map(whole.#counted);
  }

  /** A new node has the lease of the step which it carries out. */
  created(at: number): void {
    const node = this.#nodes[at]!;
    const bands = this.#nodes[this.#shape.parents[at]!]?.plan?.bands ?? [];
    if (node.bandIndex === undefined) return;
    const limits = bands.flatMap((band) => band.steps).find((step) => step.stepId === node.stepId)?.budget;
    if (limits !== undefined) this.#put(at, { limits, before: NOTHING });
  }

  /** After an event about the node at a position, which looked like `earlier` before it. */
  apply(at: number, earlier: GraphNode, event: Event): void {
    const now = time(event.timestamp);
    const body = event.body;
    switch (body.case) {
      case 'nodeStatus': {
        const status = nodeStatus(body.value.status);
        if (status !== 'waiting' && !FINAL.has(status)) this.#begin(at, now);
        return;
      }
      case 'stepStatus': {
        if (stepStatus(body.value.status) !== 'running') return;
        const steps = earlier.plan?.bands.flatMap((band) => band.steps) ?? [];
        const child = steps.find((step) => step.stepId === body.value.stepId)?.nodeId;
        const position = child === undefined ? -1 : this.#shape.position(child);
        if (position >= 0 && position < this.#nodes.length) this.#begin(position, now);
        return;
      }
      case 'budgetSet':
        if (at > 0) this.#set(at, body.value.change);
        return;
      case 'budgetExhausted':
        this.#put(at, { limits: {}, before: NOTHING, ...this.#nodes[at]!.lease, exhausted: body.value.budget });
        return;
      case 'nodeReopened':
        if (FINAL.has(earlier.status)) this.#anew(at, body.value.again, subtreeBudget(body.value.budget), now);
        return;
    }
  }

  /** In a fork, what is used counts from the fork on. */
  forked(now: number): void {
    for (const [at, node] of this.#nodes.entries()) {
      if (FINAL.has(node.status)) continue;
      this.#counted.set(at, { since: now, usage: node.subtreeUsage });
      if (node.lease === undefined) continue;
      const { exhausted: _, ...lease } = node.lease;
      // A share of what is above that was used up is not a lease.
      if (isEmpty(lease.limits)) this.#put(at, undefined);
      else
        this.#change(
          at,
          tidy<Lease>({
            ...lease,
            since: lease.since === undefined ? undefined : now,
            before: subtreeUse(node.subtreeUsage),
          }),
        );
    }
  }

  /** The node begins, and with it the time of its lease. */
  #begin(at: number, now: number): void {
    const lease = this.#nodes[at]!.lease;
    if (lease !== undefined && lease.since === undefined) this.#change(at, { ...lease, since: now });
  }

  /** A person has changed the budget. One that was used up may have room again: if it has none, that is said again. */
  #set(at: number, change: { [key in keyof SubtreeBudget]?: bigint | undefined } | undefined): void {
    const node = this.#nodes[at]!;
    const counted = this.#counted.get(at);
    const { exhausted: _, ...old } =
      node.lease !== undefined && !isEmpty(node.lease.limits)
        ? node.lease
        : // What was used before counts.
          tidy<Lease>({
            limits: {},
            since: counted?.since ?? node.startedAt,
            before: counted === undefined ? NOTHING : subtreeUse(counted.usage),
          });
    const limit = (key: keyof SubtreeBudget): number | undefined =>
      change?.[key] === undefined ? old.limits[key] : Number(change[key]);
    // 0 removes a limit, but for that of time.
    const limits = tidy<SubtreeBudget>({
      maxTokens: limit('maxTokens') || undefined,
      maxCostMicros: limit('maxCostMicros') || undefined,
      maxToolCalls: limit('maxToolCalls') || undefined,
      maxWallClockMs: limit('maxWallClockMs'),
    });
    if (isEmpty(limits)) this.#put(at, undefined);
    else this.#change(at, { ...old, limits });
  }

  /** The node goes on after its end: it has another lease. */
  #anew(at: number, again: boolean, limits: SubtreeBudget | undefined, now: number): void {
    const usage = this.#nodes[at]!.subtreeUsage;
    this.#counted.set(at, { since: now, usage });
    if (limits === undefined) this.#put(at, undefined);
    else this.#change(at, tidy<Lease>({ limits, since: again ? undefined : now, before: subtreeUse(usage) }));
  }

  /** Gives a node a lease. Its time ends no later than that of the leases above. */
  #change(at: number, lease: Lease): void {
    const { deadline: _, ...rest } = lease;
    const ms = rest.limits.maxWallClockMs;
    const own = rest.since === undefined || ms === undefined ? undefined : rest.since + ms;
    const above = own === undefined ? undefined : this.#deadlineAbove(at);
    this.#put(
      at,
      tidy<Lease>({ ...rest, deadline: own === undefined || above === undefined ? own : Math.min(own, above) }),
    );
  }

  #deadlineAbove(at: number): number | undefined {
    for (let above = this.#shape.parents[at]!; above >= 0; above = this.#shape.parents[above]!) {
      const deadline = this.#nodes[above]!.lease?.deadline;
      if (deadline !== undefined) return deadline;
    }
    return undefined;
  }

  #put(at: number, lease: Lease | undefined): void {
    this.#nodes[at] = tidy<GraphNode>({ ...this.#nodes[at]!, lease });
  }
}

// What the user chose on one run page: the selected node, folds, filters, where to look. Live events never change
// any of it.

import { placeFromText, placeToText, type Target } from './citations/passage';
import { RunCitations } from './citations/run-citations.svelte';
import { filterNodes, type Filter, type Quick } from './filter';
import { FINAL, type GraphNode } from './projection/model';
import { RunDocuments } from './run-documents.svelte';
import { RunForks } from './run-forks.svelte';
import { router } from './router.svelte';
import type { RunSession } from './session.svelte';
import { Scratchpads } from './scratchpads.svelte';
import { Sources } from './sources.svelte';
import { doAtOnce } from './steering/at-once';
import { offers, pausedBy, type Command, type Kind } from './steering/offers';
import { load, save } from './storage';

/** Selections that one can go back to. */
const MOST_TRAIL = 50;

export const VIEWS = ['answer', 'graph', 'time', 'documents'] as const;
export type View = (typeof VIEWS)[number];

/** What the panel over the graph shows: the selected node, a cited document, or the run as a whole. */
const SIDES = ['node', 'document', 'run'] as const;
export type Side = (typeof SIDES)[number];

/** A document that something cites, and the place to show. */
export interface Source extends Target {
  documentId: string;
}

/** The source that the address names. */
function sourceOfAddress(): Source | undefined {
  const documentId = router.get('source');
  if (documentId === '') return undefined;
  const passage = placeFromText(router.get('passage'));
  return { documentId, ...(passage && { passage }) };
}

/** A link to something in the graph opens the graph. */
function viewOfAddress(): View | undefined {
  const named = VIEWS.find((view) => view === router.get('view'));
  if (named !== undefined) return named;
  // Links of version 0.2 say it in other words.
  if (router.get('document') !== '' || router.get('list') === 'documents') return 'documents';
  if (router.get('side') === 'events') return 'time';
  return ['node', 'seq', 'q', 'show', 'side', 'source'].some((name) => router.get(name) !== '') ? 'graph' : undefined;
}

export class RunState {
  readonly session: RunSession;
  selected = $state<string | undefined>(router.get('node') || undefined);
  collapsed = $state.raw<ReadonlySet<string>>(new Set<string>());
  query = $state(router.get('q'));
  quick = $state<Quick>((router.get('show') || 'all') as Quick);
  /** Tab of the node panel. */
  tab = $state(router.get('tab') || 'overview');
  /** The view that the user has chosen; undefined for the one that suits the run. */
  chosen = $state<View | undefined>(viewOfAddress());
  /** True once the run has ended, and its answer may take the place of the graph. */
  settled = $state(false);
  /** The past is played. */
  playing = $state(false);
  side = $state<Side>(SIDES.find((side) => side === router.get('side')) ?? 'node');
  /** Nodes that something on the page points at. */
  lit = $state.raw<ReadonlySet<string>>(new Set<string>());
  /** The document that is shown. */
  document = $state<string | undefined>(router.get('document') || undefined);
  /** The cited document that is shown instead. */
  source = $state.raw<Source | undefined>(sourceOfAddress());
  /** A new object each time that a document is to be shown. */
  opened = $state.raw<object>({});
  /** Where the graph should move to; a new object each time. */
  goal = $state.raw<{ id: string } | undefined>();
  /** The command whose dialog is open. */
  command = $state.raw<Command | undefined>();
  readonly scratchpads = new Scratchpads();
  /** What the panel showed when a source was opened. */
  #before: Side = 'node';
  #trail: readonly (string | undefined)[] = [];
  readonly documents: RunDocuments;
  readonly forks: RunForks;
  readonly citations: RunCitations;
  readonly sources: Sources;

  constructor(session: RunSession) {
    this.session = session;
    this.documents = new RunDocuments(session);
    this.forks = new RunForks(session);
    this.citations = new RunCitations(session, (id, title) => this.sources.learn(id, title));
    this.sources = new Sources({
      runId: session.runId,
      href: (id, quote) => this.sourceUrl({ documentId: id, ...this.citations.target(id, quote) }),
      open: (id, quote) => this.openSource({ documentId: id, ...this.citations.target(id, quote) }),
    });
    this.collapsed = new Set(load<string[]>(`collapsed.${session.runId}`) ?? []);
  }

  readonly view = $derived<View>(this.chosen ?? (this.settled ? 'answer' : 'graph'));

  readonly filter = $derived<Filter>({ query: this.query.trim().toLowerCase(), quick: this.quick });

  readonly #pausing = $derived.by(() => (void this.session.version, (this.session.graph?.pauses ?? 0) > 0));

  /** True if the node has not ended, and it or a node above it is paused. */
  isHeld(node: GraphNode): boolean {
    const graph = this.#pausing ? this.session.graph : undefined;
    return graph !== undefined && pausedBy(graph, node) !== undefined;
  }

  /** Positions of the nodes that match the filters; undefined without a filter. */
  readonly matches = $derived.by<ReadonlySet<number> | undefined>(() => {
    const graph = this.session.graph;
    void this.session.version;
    if (graph === undefined || (this.filter.query === '' && this.filter.quick === 'all')) return undefined;
    void this.scratchpads.version;
    // Documents have no older versions, so in the past only the ends that events carry are searched.
    return filterNodes(graph.nodes, this.filter, this.session.isLive ? this.scratchpads.bodies : undefined);
  });

  /**
   * Pauses, resumes, or stops a branch at once, because that can be undone. Opens the dialog of other commands, or of
   * these with `asked`. The root stands for the whole run.
   */
  ask(kind: Kind, nodeId: string, asked = false): void {
    const { live, head, runId } = this.session;
    const root = live?.nodes[0];
    const node = nodeId === '' ? root : live?.node(nodeId);
    if (node === undefined) return;
    // What is paused cannot be stopped on trial: it would be paused first.
    const onTrial = kind === 'stop' && node !== root && node.paused !== true;
    if (kind === 'resume' || ((kind === 'pause' || onTrial) && !asked))
      void doAtOnce(runId, kind, node === root ? { nodeId: '', title: '' } : { nodeId, title: node.title });
    else if (kind === 'plan' && FINAL.has(node.status))
      this.command = { kind: 'fork', atSeq: head, nodeId, onNode: 'plan' };
    else this.command = { kind, nodeId: node === root && (kind === 'pause' || kind === 'budget') ? '' : nodeId };
  }

  /** Opens the dialog of a fork from the moment that is shown. */
  askFork(): void {
    this.command = {
      kind: 'fork',
      atSeq: this.session.at ?? this.session.head,
      nodeId: this.selected,
      onNode: 'nothing',
    };
  }

  /** The same by keyboard: the first of these commands that makes sense for the selected node, else for the run. */
  askFor(...kinds: Kind[]): void {
    const { live, isLive } = this.session;
    const node = live?.node(this.selected ?? live.nodes[0]?.id ?? '');
    if (live === undefined || node === undefined || !isLive) return;
    const offered = offers(live, node);
    const kind = kinds.find((wanted) => offered.includes(wanted));
    if (kind !== undefined) this.ask(kind, node.id);
  }

  select(id: string | undefined): void {
    if (id !== undefined && this.selected !== id) this.#trail = [...this.#trail, this.selected].slice(-MOST_TRAIL);
    this.selected = id;
    router.set({ node: id });
    if (id === undefined) return;
    if (this.view !== 'graph') this.setView('graph');
    this.setSide('node');
  }

  /** Leads back to what was selected before. */
  back(): void {
    const to = this.#trail.at(-1);
    this.#trail = this.#trail.slice(0, -1);
    this.selected = to;
    router.set({ node: to });
    if (to !== undefined) this.reveal(to);
  }

  setView(view: View): void {
    this.chosen = view;
    router.set({ view });
  }

  setTab(tab: string): void {
    this.tab = tab;
    router.set({ tab: tab === 'overview' ? undefined : tab });
    this.setSide('node');
  }

  /** Shows a document of the run, and the tree of its documents; undefined shows none. */
  openDocument(id: string | undefined): void {
    this.document = id;
    this.source = undefined;
    router.set({ document: id, source: undefined, passage: undefined });
    if (id === undefined) return;
    this.opened = {};
    this.setView('documents');
  }

  /** Shows a document that something cites, at the passage. The tree beside it stays. */
  openSource(source: Source): void {
    if (this.source === undefined) this.#before = this.side;
    this.source = source;
    router.set({ source: source.documentId, passage: source.passage && placeToText(source.passage) });
    this.opened = {};
    this.setSide('document');
  }

  /** Leads back to where it was opened. */
  closeSource(): void {
    this.source = undefined;
    router.set({ source: undefined, passage: undefined });
    this.citations.back = this.#before === 'node' ? this.citations.from : '';
    this.setSide(this.#before);
  }

  /** The address of this page with a source. */
  sourceUrl({ documentId, passage }: Source): string {
    const params = new URLSearchParams(router.params);
    params.set('side', 'document');
    params.set('source', documentId);
    if (passage) params.set('passage', placeToText(passage));
    else params.delete('passage');
    return `${router.path}?${params.toString()}`;
  }

  setSide(side: Side): void {
    this.side = side;
    router.set({ side: side === 'node' ? undefined : side });
  }

  /** Expands the ancestors of a node and brings it into view. */
  reveal(id: string): void {
    const graph = this.session.graph;
    if (graph === undefined) return;
    let open: Set<string> | undefined;
    for (let n = graph.node(id); n?.parentId !== undefined; n = graph.node(n.parentId)) {
      if (this.collapsed.has(n.parentId)) (open ??= new Set(this.collapsed)).delete(n.parentId);
    }
    if (open !== undefined) this.#setCollapsed(open);
    this.goal = { id };
  }

  go(id: string): void {
    this.select(id);
    this.reveal(id);
  }

  toggle(id: string, collapse = !this.collapsed.has(id)): void {
    const next = new Set(this.collapsed);
    if (collapse) next.add(id);
    else next.delete(id);
    this.#setCollapsed(next);
  }

  #setCollapsed(next: ReadonlySet<string>): void {
    this.collapsed = next;
    save(`collapsed.${this.session.runId}`, [...next]);
  }

  setQuery(query: string): void {
    this.query = query;
    router.set({ q: query.trim() });
  }

  setQuick(quick: Quick): void {
    this.quick = this.quick === quick ? 'all' : quick;
    router.set({ show: this.quick === 'all' ? undefined : this.quick });
  }

  /** Selects the next match after the selected node, in order of creation, and wraps around. */
  next(step: 1 | -1): void {
    const graph = this.session.graph;
    const found = this.matches === undefined ? undefined : [...this.matches];
    if (graph === undefined || found === undefined || found.length === 0) return;
    const here = this.selected === undefined ? -1 : graph.position(this.selected);
    const to =
      step === 1 ? (found.find((at) => at > here) ?? found[0]!) : (found.findLast((at) => at < here) ?? found.at(-1)!);
    this.go(graph.nodes[to]!.id);
  }

  /** The number of descendants of a node. */
  descendants(at: number): number {
    const graph = this.session.graph;
    if (graph === undefined) return 0;
    let sum = 0;
    const stack = [...graph.childrenOf(at)];
    while (stack.length > 0) {
      sum += 1;
      stack.push(...graph.childrenOf(stack.pop()!));
    }
    return sum;
  }
}

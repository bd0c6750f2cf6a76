// The citations of a run, read node by node and page by page when something shows them.

import { untrack } from 'svelte';
import { SvelteMap } from 'svelte/reactivity';
import type { CitedClaim, Disagreement } from '../../gen/treeagent/v1/citations_pb';
import { runs } from '../api/client';
import { auth } from '../auth.svelte';
import { Paged, type Page } from '../paged.svelte';
import type { Artifact, GraphNode, Verification } from '../projection/model';
import type { RunSession } from '../session.svelte';
import { fold } from './fold';
import type { Doubt } from '../markdown/marks';
import type { Target } from './passage';
import { isVerified, placeOf, unverified } from './words';

const PAGE = 100;
/** The server gives at most this many at once. */
const MOST = 1000;

/** What the log says about the citations of a node: changes whenever they do. */
const stateOf = (node: GraphNode | undefined): string =>
  (node?.artifacts ?? []).map((one) => `${one.artifactId} ${one.citations?.total ?? 0}`).join();

type ReadCitations = (page: { pageSize: number; pageToken: string }, signal: AbortSignal) => Promise<Page<CitedClaim>>;

/** The citations of one node. */
export class NodeCitations {
  readonly list = new Paged<CitedClaim>();
  /** Sources that disagree, of the artifact to read first. */
  disagreements = $state.raw<readonly Disagreement[]>([]);
  readonly #page: ReadCitations;
  /** What the log said when they were read. */
  #state: string | undefined;

  constructor(page: ReadCitations) {
    this.#page = page;
  }

  /** Reads the first page, unless what the log says has been read. */
  read(state: string): void {
    if (this.#state === state) return;
    this.#state = state;
    // As much as there is, so that a list somebody reads does not become shorter.
    const pageSize = Math.min(MOST, Math.max(PAGE, Math.ceil((this.list.items?.length ?? 0) / PAGE) * PAGE));
    this.list.start((pageToken, signal) => this.#page({ pageSize, pageToken }, signal));
  }

  /** Reads the next page, if there is one. An effect that calls it goes on when the page has arrived. */
  readOn(): void {
    const { items, complete, reading, why } = this.list;
    if (items !== undefined && !complete && !reading && why === undefined) untrack(() => void this.list.more());
  }
}

/** The marks of an artifact, and what they follow from. */
interface Doubted {
  of: readonly CitedClaim[] | undefined;
  verification: Verification | undefined;
  doubts: Doubt[];
}

export class RunCitations {
  readonly #session: RunSession;
  readonly #nodes = new Map<string, NodeCitations>();
  /** The node that wrote a document, as far as it was looked up. */
  readonly #writers = new Map<string, string>();
  /** What was said last about each artifact, so that its text is marked again only if that changes. */
  readonly #doubts = new WeakMap<Artifact, Doubted>();
  readonly #quotes = new WeakMap<CitedClaim, string>();
  /** The artifacts whose lists are open. */
  open = $state.raw<ReadonlySet<string>>(new Set());
  /** Lists show unverified claims alone. */
  unverifiedOnly = $state(false);
  /** Chains that somebody opened or closed, by the claims down to them. */
  readonly chains = new SvelteMap<string, boolean>();
  /** The claim whose source was opened last, by the claims down to it. */
  from = '';
  /** The same when the source has been closed: its link gets the focus again. */
  back = '';

  readonly #title: (documentId: string, title: string) => void;

  /** `title` learns the titles of sources. */
  constructor(session: RunSession, title: (documentId: string, title: string) => void) {
    this.#session = session;
    this.#title = title;
  }

  toggle(artifactId: string): void {
    const next = new Set(this.open);
    if (!next.delete(artifactId)) next.add(artifactId);
    this.open = next;
  }

  of(nodeId: string): NodeCitations {
    let found = this.#nodes.get(nodeId);
    if (found === undefined) {
      found = new NodeCitations(async (page, signal) => {
        const { runId } = this.#session;
        const { claims, nextPageToken, disagreements } = await runs.listCitations(
          { runId, nodeId, ...page },
          { signal },
        );
        for (const { citation, sourceTitle } of claims) this.#title(citation?.documentId ?? '', sourceTitle);
        this.of(nodeId).disagreements = disagreements;
        return { items: claims, next: nextPageToken };
      });
      this.#nodes.set(nodeId, found);
    }
    return found;
  }

  /** Changes when the citations of a node do. The live graph says it, whatever moment is shown. */
  state(nodeId: string): string {
    void this.#session.version;
    return `${auth.version} ${stateOf(this.#session.live?.node(nodeId))}`;
  }

  /** Reads those of a node, and again when the log names more of them. For effects. */
  read(nodeId: string, list = this.of(nodeId)): void {
    const state = this.state(nodeId);
    untrack(() => list.read(state));
  }

  /**
   * Those of an artifact as it is shown, in the order of the text. Citations are only ever added to an artifact, so
   * those that it had at an earlier moment are the first ones.
   */
  shown(nodeId: string, artifact: Artifact): CitedClaim[] {
    const items = this.of(nodeId).list.items ?? [];
    return items.filter((one) => one.artifactId === artifact.artifactId).slice(0, artifact.citations?.total ?? 0);
  }

  /** The claims of an artifact that are marked: those that are unverified, and in the answer those that are doubted. */
  doubts(nodeId: string, artifact: Artifact, verification?: Verification): Doubt[] {
    const { items } = this.of(nodeId).list;
    const found = artifact.isPrimary ? verification : undefined;
    const known = this.#doubts.get(artifact);
    if (known !== undefined && known.of === items && known.verification === found) return known.doubts;
    const doubts = this.shown(nodeId, artifact).flatMap((one) => {
      const { citation } = one;
      return citation === undefined || isVerified(one) ? [] : [{ claim: citation.claim, why: unverified(citation) }];
    });
    for (const { claim, reason } of found?.doubts ?? [])
      doubts.push({ claim, why: `doubted by the verifier: ${reason}` });
    this.#doubts.set(artifact, { of: items, verification: found, doubts });
    return doubts;
  }

  /** The node that wrote a document of the run as its artifact. */
  writer(documentId: string): string | undefined {
    const known = this.#writers.get(documentId);
    if (known !== undefined) return known;
    // What cites it came later, so there is nothing to wait for.
    for (const node of untrack(() => this.#session.live?.nodes) ?? []) {
      for (const one of node.artifacts) if (one.documentId !== undefined) this.#writers.set(one.documentId, node.id);
    }
    return this.#writers.get(documentId);
  }

  #quote(one: CitedClaim): string {
    let words = this.#quotes.get(one);
    if (words === undefined) this.#quotes.set(one, (words = fold(one.citation?.quote ?? '').text.trim()));
    return words;
  }

  /** Where a document says some words, if a citation that has been read says it. */
  target(documentId: string, quote: string | undefined): Target {
    if (quote === undefined) return {};
    const words = fold(quote).text.trim();
    for (const { list } of this.#nodes.values()) {
      for (const one of list.items ?? []) {
        const passage = placeOf(one);
        const isOf = passage !== undefined && one.citation?.documentId === documentId && this.#quote(one) === words;
        if (isOf) return { passage, quote };
      }
    }
    return { quote };
  }
}

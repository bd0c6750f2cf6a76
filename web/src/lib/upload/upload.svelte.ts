// Sends files to a project: at most three at a time, each in one call. If the connection breaks, a file waits and is
// sent again; the gateway answers "unchanged" if it had arrived.

import { ImportOutcome, type ImportFileResponse } from '../../gen/treeagent/v1/document_service_pb';
import { documents, failure, failureWords, projects, type Failure } from '../api/client';
import { auth } from '../auth.svelte';
import type { Named } from '../context-choice';
import { RequestIds } from '../request-id';
import { pause } from '../stream/follow';
import { told } from '../told.svelte';
import { MOST_BYTES, type Left, type Pick, type Picked } from './pick';

const AT_ONCE = 3;
const WAIT_MS = [1_000, 2_000, 5_000, 10_000];

export type Phase = 'listing' | 'asking' | 'sending' | 'done' | 'cancelled';

/** What sends one file. */
export type Send = (
  projectId: string,
  path: string,
  content: Uint8Array,
  signal: AbortSignal,
) => Promise<ImportFileResponse>;
/** Resolves when it is time to try again. */
export type Wait = (tries: number, signal: AbortSignal) => Promise<void>;

const send: Send = (projectId, path, content, signal) => documents.importFile({ projectId, path, content }, { signal });

const wait: Wait = (tries, signal) => pause(WAIT_MS[Math.min(tries, WAIT_MS.length) - 1]!, signal);

const NOTHING = { found: 0, created: 0, replaced: 0, unchanged: 0, left: 0 };

export class Upload {
  readonly name: string;
  phase = $state<Phase>('listing');
  project = $state.raw<Named | undefined>();
  counts = $state.raw(NOTHING);
  /** Why nothing is sent now, although there is something to send. */
  waiting = $state.raw<Failure | undefined>();
  /** Why it ended early, or cannot begin. */
  problem = $state('');
  /** Each file and folder that is left out. It grows; `counts` says when. */
  readonly left: Left[] = [];
  readonly #files: Picked[] = [];
  readonly #now = { ...NOTHING };
  readonly #abort = new AbortController();
  readonly #requestIds = new RequestIds();
  readonly #send: Send;
  readonly #wait: Wait;
  #drawing = false;

  constructor(name: string, to: { send?: Send; wait?: Wait } = {}) {
    this.name = name;
    this.#send = to.send ?? send;
    this.#wait = to.wait ?? wait;
  }

  /** Files that are dealt with, of those that were found. */
  get handled(): number {
    const { created, replaced, unchanged } = this.counts;
    return created + replaced + unchanged + this.#failed;
  }
  /** Files that were left out when it was their turn. */
  #failed = 0;

  async list(pick: Pick): Promise<void> {
    await pick.list(
      (file) => {
        this.#files.push(file);
        this.#now.found += 1;
        this.#changed();
      },
      (what) => this.#leave(what),
      this.#abort.signal,
    );
    if (this.phase !== 'listing') return;
    this.#draw();
    this.phase = this.#files.length === 0 ? 'done' : 'asking';
  }

  /** Makes the project, if it has no id yet, and sends everything to it. */
  async start(project: Named): Promise<void> {
    if (this.phase !== 'asking') return;
    this.phase = 'sending';
    this.problem = '';
    try {
      this.project = project.id === '' ? await this.#create(project.name) : project;
    } catch (error) {
      const why = auth.caught(error);
      this.problem = why.detail === '' ? why.title : why.detail;
      this.phase = 'asking';
      return;
    }
    let turn = 0;
    const work = async (): Promise<void> => {
      while (!this.#abort.signal.aborted && turn < this.#files.length) await this.#one(this.#files[turn++]!);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    this.#draw();
    this.waiting = undefined;
    if (!this.#abort.signal.aborted) this.phase = 'done';
  }

  cancel(problem = ''): void {
    this.problem = problem;
    this.phase = 'cancelled';
    this.#abort.abort();
    this.#draw();
  }

  async #create(name: string): Promise<Named> {
    const request = { name: name.trim() };
    const { project } = await projects.createProject({ ...request, requestId: this.#requestIds.for(request) });
    return { id: project!.projectId, name: project!.name };
  }

  async #one({ path, open }: Picked): Promise<void> {
    let content: Uint8Array;
    try {
      const file = await open();
      if (file.size > MOST_BYTES) return this.#fail(path, 'is larger than 8 MiB: split it');
      content = new Uint8Array(await file.arrayBuffer());
    } catch {
      return this.#fail(path, 'cannot be read');
    }
    const { signal } = this.#abort;
    for (let tries = 1; !signal.aborted; tries++) {
      try {
        this.#took(path, await this.#send(this.project!.id, path, content, signal));
        this.waiting = undefined;
        return;
      } catch (error) {
        if (signal.aborted) return;
        const why = failure(error);
        if (why.kind === 'invalid' && why.field !== undefined) return this.#fail(path, why.detail);
        if (why.kind === 'offline' || why.kind === 'signed-out') {
          auth.report(why);
          this.waiting = why;
          await this.#wait(tries, signal);
        } else if (why.kind === 'other') return this.#fail(path, why.detail);
        else return this.cancel(failureWords(why));
      }
    }
  }

  #took(path: string, { outcome, reason }: ImportFileResponse): void {
    if (outcome === ImportOutcome.SKIPPED) return this.#fail(path, reason);
    const key =
      outcome === ImportOutcome.CREATED ? 'created' : outcome === ImportOutcome.REPLACED ? 'replaced' : 'unchanged';
    this.#now[key] += 1;
    this.#changed();
  }

  #fail(path: string, reason: string): void {
    this.#failed += 1;
    this.#leave({ path, reason });
  }

  #leave(what: Left): void {
    this.left.push(what);
    this.#now.left += 1;
    this.#changed();
  }

  /** Shows the counts soon: ten thousand files must not draw the page as often. */
  #changed(): void {
    if (this.#drawing) return;
    this.#drawing = true;
    setTimeout(() => this.#draw(), 100);
  }

  #draw(): void {
    this.#drawing = false;
    this.counts = { ...this.#now };
  }
}

class Uploads {
  current = $state.raw<Upload | undefined>();
  /** Incremented when an upload has ended. Views that show documents read them again then. */
  ended = $state(0);

  /** True while files are being sent. */
  get busy(): boolean {
    return this.current?.phase === 'sending';
  }

  /** Takes files in. With a project they are sent at once; without one somebody chooses it first. */
  async offer(pick: Pick, project?: Named): Promise<void> {
    if (this.busy) {
      told.say('Wait until the other files are added, or cancel that.');
      return;
    }
    this.current?.cancel();
    const upload = new Upload(pick.name);
    this.current = upload;
    await upload.list(pick);
    if (project !== undefined) await this.start(project);
  }

  async start(project: Named): Promise<void> {
    await this.current?.start(project);
    this.ended += 1;
  }
}

export const uploads = new Uploads();

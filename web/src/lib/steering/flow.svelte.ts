// The way of one action from a dialog to the log: it is previewed, confirmed, and carried out.
//
// A preview belongs to the content that it was made for, and names the seq that confirming demands. Sending the same
// content again has the same request id, so it is never done twice.

import { Code, ConnectError } from '@connectrpc/connect';
import { failure, type Failure } from '../api/failure';
import { auth } from '../auth.svelte';
import { RequestIds } from '../request-id';
import type { Action, Outcome, Sent } from './actions';

/** How long typing must rest before it is previewed. */
const REST_MS = 300;

export type Send = (action: Action, sent: Sent, signal?: AbortSignal) => Promise<Outcome>;
/** `unanswered`: the action may have been carried out. It can be repeated, and nothing else. */
export type Phase = 'form' | 'previewing' | 'ready' | 'sending' | 'unanswered' | 'done';

export class CommandFlow {
  phase = $state<Phase>('form');
  preview = $state.raw<Outcome | undefined>();
  /** Why the last call did not do what it should. */
  why = $state.raw<Failure | undefined>();
  /** The seq of the preview that something overtook; undefined when nothing did. */
  overtaken = $state<bigint | undefined>();
  readonly #send: Send;
  readonly #ids = new RequestIds();
  #action: Action | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asked = new AbortController();

  constructor(send: Send) {
    this.#send = send;
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#asked.abort();
  }

  /** The form has this content now; undefined while it is incomplete. */
  show(action: Action | undefined): void {
    if (this.phase === 'sending' || this.phase === 'unanswered' || this.phase === 'done') return;
    const first = this.#action === undefined;
    this.#action = action;
    this.preview = undefined;
    this.why = undefined;
    this.overtaken = undefined;
    this.#asked.abort();
    clearTimeout(this.#timer);
    this.phase = action === undefined ? 'form' : 'previewing';
    if (action !== undefined) this.#timer = setTimeout(() => void this.#ask(action), first ? 0 : REST_MS);
  }

  /** Previews the same content again. */
  async again(): Promise<void> {
    const action = this.#action;
    if (action !== undefined && (this.phase === 'form' || this.phase === 'ready')) await this.#ask(action);
  }

  async #ask(action: Action): Promise<void> {
    this.#asked.abort();
    const asked = (this.#asked = new AbortController());
    this.phase = 'previewing';
    this.preview = undefined;
    try {
      const outcome = await this.#send(action, { validateOnly: true }, asked.signal);
      if (asked.signal.aborted) return;
      this.preview = outcome;
      this.phase = 'ready';
      if (this.overtaken === undefined) this.why = undefined;
    } catch (error) {
      if (asked.signal.aborted) return;
      this.phase = 'form';
      this.#failed(error);
    }
  }

  /** Does what the preview says. Returns the outcome once it is done, undefined when it is not. */
  async confirm(): Promise<Outcome | undefined> {
    const [action, seq] = [this.#action, this.preview?.preview?.seq];
    if (action === undefined || seq === undefined || (this.phase !== 'ready' && this.phase !== 'unanswered'))
      return undefined;
    const before = this.phase;
    this.phase = 'sending';
    this.why = undefined;
    this.overtaken = undefined;
    try {
      const requestId = this.#ids.for({ action, seq });
      const outcome = await this.#send(action, { validateOnly: false, requestId, expectedSeq: seq });
      this.phase = 'done';
      return outcome;
    } catch (error) {
      const why = this.#failed(error);
      if (why.kind === 'offline') this.phase = 'unanswered';
      else if (why.kind === 'signed-out') this.phase = before;
      else if (ConnectError.from(error).code === Code.Aborted) {
        this.overtaken = seq;
        await this.#ask(action);
      } else this.phase = 'form';
      return undefined;
    }
  }

  #failed(error: unknown): Failure {
    const why = failure(error);
    auth.report(why);
    return (this.why = why);
  }
}

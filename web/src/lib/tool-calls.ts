// What calls of tools are about: a name, a query or an address, as their events say it.

import type { Event } from '../gen/treeagent/v1/events_pb';

/** Arguments that say what a call is about, the most telling first. */
const TELLING = ['path', 'name', 'query', 'url', 'title', 'pattern', 'path_prefix', 'document_id'];

/** Results of the built-in tool that reads documents begin with the name: `guide.md, 126 of 126 bytes`. */
const NAMED = /^(.+), [\d,]+ of [\d,]+ bytes/;

export class ToolCalls {
  readonly #subjects = new Map<string, string>();
  /** Names of documents, by id. */
  readonly #names = new Map<string, string>();

  note({ body }: Event): void {
    if (body.case === 'toolCallRequested') {
      const args = body.value.args ?? {};
      const telling = TELLING.map((name) => args[name]).find((value) => typeof value === 'string' && value !== '');
      if (typeof telling === 'string') this.#subjects.set(body.value.callId, telling.slice(0, 200));
    } else if (body.case === 'toolCallResult') {
      const name = NAMED.exec(body.value.summary ?? '')?.[1];
      const id = this.#subjects.get(body.value.callId);
      if (name !== undefined && id !== undefined) this.#names.set(id, name);
    }
  }

  /** Undefined if it is not known, or is an id without a name. */
  subject(callId: string): string | undefined {
    const found = this.#subjects.get(callId);
    if (found === undefined) return undefined;
    return this.#names.get(found) ?? (/^[0-9a-f-]{36}$/.test(found) ? undefined : found);
  }
}

// A fake language model: a server that speaks the protocols of OpenAI and Anthropic and gives the answers of a test.
// With it a real gateway creates runs with any titles, tool names and costs.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Gateway } from './gateway';
import { anthropic, openai, type Said, type Tokens } from './wires';

export type Role = 'planner' | 'executor' | 'aggregator';

export interface Asked {
  role: Role;
  /** The model's name at its provider. */
  model: string;
  /** All messages of the request. */
  said: string;
  /** The messages include results of tools. */
  hasToolResults: boolean;
}

export type Answer = (Said & { tokens?: Tokens }) | { status: number; body: string };

const TOKENS: Tokens = { fresh: 20_000, cached: 0, output: 1_000 };

export class LanguageModel {
  readonly #answer: (asked: Asked) => Answer | Promise<Answer>;
  readonly #verifier: Answer;
  #server: Server | undefined;
  url = '';

  /** `verifier`: what the verifier of an answer always says. */
  constructor(answer: (asked: Asked) => Answer | Promise<Answer>, verifier: Answer = verified()) {
    this.#answer = answer;
    this.#verifier = verifier;
  }

  async listen(): Promise<void> {
    this.#server = createServer(this.serve);
    await new Promise<void>((resolve) => this.#server!.listen(0, '127.0.0.1', resolve));
    const address = this.#server.address();
    this.url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}/v1`;
  }

  /** Listens. Returns a gateway whose runs ask this model, and that is to be started. */
  async gateway(): Promise<Gateway> {
    await this.listen();
    const options = [
      '--model-balanced',
      'openai:gpt-4.1-mini',
      '--model-base-url',
      this.url,
      '--model-backoff-ms',
      '1',
    ];
    return new Gateway(options, { OPENAI_API_KEY: 'sk-test-0123456789' });
  }

  async close(): Promise<void> {
    this.#server?.closeAllConnections();
    await new Promise<void>((resolve) =>
      this.#server === undefined ? resolve() : this.#server.close(() => resolve()),
    );
  }

  /** Answers one request. */
  readonly serve = (request: IncomingMessage, response: ServerResponse): void => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => void this.#reply(request.url ?? '', Buffer.concat(pieces).toString(), response));
  };

  async #reply(path: string, body: string, response: ServerResponse): Promise<void> {
    if (body === '')
      return void response
        .writeHead(200, { 'content-type': 'application/json' })
        .end('{"data":[{"id":"gpt-4.1-mini"}]}');
    const { model } = JSON.parse(body) as { model: string };
    const role =
      (['planner', 'executor', 'aggregator'] as const).find((r) => body.includes(`You are the ${r}`)) ?? 'executor';
    const answer = body.includes('You are the verifier')
      ? this.#verifier
      : await this.#answer({
          role,
          model,
          said: body,
          hasToolResults: /"role":"tool"|"type":"tool_result"/.test(body),
        });
    if ('status' in answer)
      return void response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.body);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const wire = path.endsWith('/messages') ? anthropic : openai;
    wire(answer, answer.tokens ?? TOKENS, model, response);
  }
}

/** Answers of the roles when everything works. */
export const plan = (
  steps: { id: string; title: string; reason: string; successCriteria: string[] }[],
): { json: unknown } => ({
  json: {
    decision: {
      mode: 'plan',
      modeReason: 'There are several parts.',
      scratchpad: { appendMarkdown: 'Parts, side by side.' },
      plan: { summary: 'All parts.', bands: [{ goal: 'find out', parallelizable: true, steps }] },
    },
  },
});

export const direct = (note: string): { json: unknown } => ({
  json: { decision: { mode: 'execute', modeReason: 'One look is enough.', scratchpad: { appendMarkdown: note } } },
});

export const executed = (summary: string, markdown: string): { json: unknown } => ({
  json: {
    scratchpad: { appendMarkdown: markdown },
    artifacts: [{ type: 'document', label: 'answer', title: summary, documentMarkdown: markdown, isPrimary: true }],
    result: { summary, successAssessment: { met: true, notes: null } },
  },
});

export const verified = (doubts: { claim: string; reason: string }[] = []): { json: unknown } => ({
  json: {
    summary: 'The answer holds.',
    criteria: [{ criterion: 'It is answered', met: true, note: null }],
    doubts,
    shouldReplan: false,
    replanReason: null,
  },
});

export const aggregated = (summary: string): { json: unknown } => ({
  json: {
    scratchpad: { appendMarkdown: 'Both agree.' },
    synthesis: { summary, keyFindings: [summary], gaps: [] },
    artifacts: [{ type: 'document', label: 'synthesis', title: summary, documentMarkdown: summary }],
    result: { summary, successAssessment: { met: true } },
    next: { shouldReplan: false },
  },
});

// A language model that a test plays: a server that speaks OpenAI's protocol and answers what it is told to. With it a
// real gateway makes runs with whatever titles, tool names and costs a model could come up with.

import { createServer, type Server, type ServerResponse } from 'node:http';

export type Role = 'planner' | 'executor' | 'aggregator';

export interface Asked {
  role: Role;
  /** Everything that the model was told. */
  said: string;
  /** Answers of tools are among it. */
  hasToolResults: boolean;
}

export type Answer = { json: unknown } | { tools: { name: string; args: unknown }[] } | { status: number; body: string };

export class LanguageModel {
  readonly #answer: (asked: Asked) => Answer | Promise<Answer>;
  #server: Server | undefined;
  url = '';

  constructor(answer: (asked: Asked) => Answer | Promise<Answer>) {
    this.#answer = answer;
  }

  async listen(): Promise<void> {
    this.#server = createServer((request, response) => {
      const pieces: Buffer[] = [];
      request.on('data', (piece: Buffer) => pieces.push(piece));
      request.on('end', () => void this.#reply(Buffer.concat(pieces).toString(), response));
    });
    await new Promise<void>((resolve) => this.#server!.listen(0, '127.0.0.1', resolve));
    const address = this.#server.address();
    this.url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}/v1`;
  }

  async close(): Promise<void> {
    this.#server?.closeAllConnections();
    await new Promise<void>((resolve) => (this.#server === undefined ? resolve() : this.#server.close(() => resolve())));
  }

  async #reply(body: string, response: ServerResponse): Promise<void> {
    if (body === '') return void response.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[{"id":"gpt-4.1-mini"}]}');
    const { messages } = JSON.parse(body) as { messages: { role: string }[] };
    const said = JSON.stringify(messages);
    const role = (['planner', 'executor', 'aggregator'] as const).find((r) => said.includes(`You are the ${r}`)) ?? 'executor';
    const answer = await this.#answer({ role, said, hasToolResults: messages.some((m) => m.role === 'tool') });
    if ('status' in answer) return void response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.body);
    const delta = 'tools' in answer
      ? { role: 'assistant', tool_calls: answer.tools.map(({ name, args }, index) => ({ index, id: `call-${index}`, type: 'function', function: { name, arguments: JSON.stringify(args) } })) }
      : { role: 'assistant', content: JSON.stringify(answer.json) };
    const say = (value: unknown): string => `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', model: 'gpt-4.1-mini', ...(value as object) })}\n\n`;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(say({ choices: [{ index: 0, delta, finish_reason: null }] }));
    response.write(say({ choices: [{ index: 0, delta: {}, finish_reason: 'tools' in answer ? 'tool_calls' : 'stop' }] }));
    response.write(say({ choices: [], usage: { prompt_tokens: 20_000, completion_tokens: 1_000, total_tokens: 21_000 } }));
    response.end('data: [DONE]\n\n');
  }
}

/** What the roles answer when all goes well. */
export const plan = (steps: { id: string; title: string; reason: string; successCriteria: string[] }[]): Answer => ({
  json: {
    decision: {
      mode: 'plan',
      modeReason: 'There are several parts.',
      scratchpad: { appendMarkdown: 'Parts, side by side.' },
      plan: { summary: 'All parts.', bands: [{ goal: 'find out', parallelizable: true, steps }] },
    },
  },
});

export const direct = (note: string): Answer => ({ json: { decision: { mode: 'execute', modeReason: 'One look is enough.', scratchpad: { appendMarkdown: note } } } });

export const executed = (summary: string, markdown: string): Answer => ({
  json: {
    scratchpad: { appendMarkdown: markdown },
    artifacts: [{ type: 'document', label: 'answer', title: summary, documentMarkdown: markdown, isPrimary: true }],
    result: { summary, successAssessment: { met: true, notes: null } },
  },
});

export const aggregated = (summary: string): Answer => ({
  json: {
    scratchpad: { appendMarkdown: 'Both agree.' },
    synthesis: { summary, keyFindings: [summary], gaps: [] },
    artifacts: [{ type: 'document', label: 'synthesis', title: summary, documentMarkdown: summary }],
    result: { summary, successAssessment: { met: true } },
    next: { shouldReplan: false },
  },
});

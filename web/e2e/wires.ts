// How model servers stream an answer: OpenAI's chat completions and Anthropic's messages.

import type { ServerResponse } from 'node:http';

/** The content of an answer. */
export type Said = { json: unknown } | { tools: { name: string; args: unknown }[] };

/** The tokens of one answer. `fresh` and `cached` are those of the prompt. */
export interface Tokens {
  fresh: number;
  cached: number;
  output: number;
}

type Wire = (answer: Said, tokens: Tokens, model: string, response: ServerResponse) => void;

export const openai: Wire = (answer, { fresh, cached, output }, model, response) => {
  const say = (value: object): boolean =>
    response.write(
      `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', model, ...value })}\n\n`,
    );
  const delta =
    'tools' in answer
      ? {
          role: 'assistant',
          tool_calls: answer.tools.map(({ name, args }, index) => ({
            index,
            id: `call-${index}`,
            type: 'function',
            function: { name, arguments: JSON.stringify(args) },
          })),
        }
      : { role: 'assistant', content: JSON.stringify(answer.json) };
  say({ choices: [{ index: 0, delta, finish_reason: null }] });
  say({ choices: [{ index: 0, delta: {}, finish_reason: 'tools' in answer ? 'tool_calls' : 'stop' }] });
  const prompt = fresh + cached;
  say({
    choices: [],
    usage: {
      prompt_tokens: prompt,
      completion_tokens: output,
      total_tokens: prompt + output,
      prompt_tokens_details: { cached_tokens: cached },
    },
  });
  response.end('data: [DONE]\n\n');
};

/**
 * Each block of a message starts, grows and stops. The first event carries the prompt's tokens, the last but one the
 * answer's.
 */
export const anthropic: Wire = (answer, { fresh, cached, output }, model, response) => {
  const say = (type: string, value: object = {}): boolean =>
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...value })}\n\n`);
  const prompt = { input_tokens: fresh, cache_creation_input_tokens: 0, cache_read_input_tokens: cached };
  const message = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    usage: { ...prompt, output_tokens: 1 },
  };
  say('message_start', { message });
  const blocks =
    'tools' in answer
      ? answer.tools.map(({ name, args }, i) => [
          { type: 'tool_use', id: `toolu_${i}`, name, input: {} },
          { type: 'input_json_delta', partial_json: JSON.stringify(args) },
        ])
      : [
          [
            { type: 'text', text: '' },
            { type: 'text_delta', text: JSON.stringify(answer.json) },
          ],
        ];
  blocks.forEach(([content_block, delta], index) => {
    say('content_block_start', { index, content_block });
    say('content_block_delta', { index, delta });
    say('content_block_stop', { index });
  });
  const stop_reason = 'tools' in answer ? 'tool_use' : 'end_turn';
  say('message_delta', { delta: { stop_reason, stop_sequence: null }, usage: { ...prompt, output_tokens: output } });
  say('message_stop');
  response.end();
};

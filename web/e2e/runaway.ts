// `make runaway`: a run that would never end by itself, against a model on this machine that always divides the work
// and has the prices of a real one. Terminal and page show how each branch stays within its allowance, and how the run
// ends with an answer of what it could pay for.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BINARY, Gateway, type GraphJson } from './gateway';
import { aggregated, executed, LanguageModel, plan, verified } from './language-model';

const OBJECTIVE = 'Compare how five cities prepare for heat';
const MOST_DOLLARS = 0.5;
const NAMES = [
  ['Athens', 'Vienna', 'Seville', 'Paris', 'Bologna'],
  ['Trees', 'Water', 'Warnings'],
  ['Plans', 'Costs', 'Effects'],
];
/** What an answer of each role uses, and how long it takes, so that one can watch. */
const TOKENS = {
  planner: { fresh: 6_000, cached: 0, output: 400 },
  executor: { fresh: 24_000, cached: 0, output: 1_500 },
  aggregator: { fresh: 8_000, cached: 0, output: 1_000 },
};
const ANSWER_MS = 900;
/** What a step of each level may use, in tokens. */
const ALLOWANCES = [450_000, 145_000, 34_000];
/** Dollars per million tokens, those of a small model of 2025. */
const MODEL = 'openai:gpt-4.1-mini';
const PRICE = { input: 0.4, cached: 0.1, output: 1.6 };

/** The title of the node that is asked, and its level. */
function nodeOf(said: string): { title: string; level: number } {
  const found = /# (?:The task of this node|Your task)\\n\\n(?:Title: )?(.*?)(?:\\n|")/.exec(said)?.[1] ?? '';
  const title = found === OBJECTIVE ? '' : found;
  return { title, level: title === '' ? 0 : title.split(', ').length };
}

export async function main(): Promise<void> {
  const model = new LanguageModel(async ({ role, said }) => {
    await new Promise((resolve) => setTimeout(resolve, ANSWER_MS));
    const { title, level } = nodeOf(said);
    const tokens = TOKENS[role];
    if (role === 'aggregator') {
      const parts = [...said.matchAll(/## ([^\\]*?) \((?:completed|cancelled|failed)[^)]*\)/g)].map(
        ([part]) => `- ${part.slice(3)}`,
      );
      return { ...aggregated(`What is known of ${title || 'the cities'}:\n\n${parts.join('\n')}`), tokens };
    }
    if (role === 'executor')
      return { ...executed(title, `# ${title}\n\n${title}: measured and written down.\n`), tokens };
    const names = NAMES[level] ?? NAMES.at(-1)!;
    const steps = names.map((name, i) => ({
      id: `s${i}`,
      title: title === '' ? name : `${title}, ${name}`,
      reason: 'There is always one more part.',
      successCriteria: ['It is known'],
      budget: { tokens: ALLOWANCES[level] ?? ALLOWANCES.at(-1)!, toolCalls: null, minutes: null },
    }));
    return { ...plan(steps), tokens };
  }, verified());
  await model.listen();
  const folder = mkdtempSync(join(tmpdir(), 'tree-agent-runaway-'));
  const table = join(folder, 'models.json');
  // What is not the provider's own service has no price of its own.
  writeFileSync(table, JSON.stringify({ models: { [MODEL]: { price: PRICE } } }));
  const gateway = new Gateway(['--model-balanced', MODEL, '--model-base-url', model.url], {
    OPENAI_API_KEY: 'sk-runaway-0123456789',
    TREE_AGENT_MODEL_TABLE: table,
  });
  await gateway.start();
  let ended = false;
  try {
    process.stdout.write(`The page: ${gateway.url}/runs\n`);
    const run = await gateway.run(
      OBJECTIVE,
      'llm',
      '--max-cost',
      String(MOST_DOLLARS),
      '--max-steps-per-band',
      '5',
      '--max-depth',
      '3',
    );
    const watch = spawn(BINARY, ['watch', run, '--server', gateway.url], { stdio: 'inherit' });
    await once(watch, 'exit');
    const graph = JSON.parse(await gateway.cli('graph', run, '--format', 'json')) as GraphJson;
    const answer = JSON.parse(await gateway.cli('result', run, '-o', 'json')) as { partial: boolean; error?: string };
    check(graph, answer);
    process.stdout.write(`${await gateway.cli('result', run)}\nThe page: ${gateway.url}/runs/${run}\n`);
    ended = true;
    if (process.stdin.isTTY) {
      process.stdout.write('Ctrl-C ends it.\n');
      await once(process, 'SIGINT');
    }
  } finally {
    await gateway.stop();
    await model.close();
    rmSync(folder, { recursive: true });
    if (!ended) process.exitCode = 1;
  }
}

/** What the demonstration promises. */
function check({ nodes }: GraphJson, answer: { partial: boolean; error?: string }): void {
  const spent = nodes[0]!.subtreeUsage.costMicros / 1e6;
  const over = nodes.filter((node) => {
    // A call that is at work may end beyond the allowance of a single part.
    if (node.depth !== 1) return false;
    const most = (node as { lease?: { limits: { maxTokens?: number } } }).lease?.limits.maxTokens;
    return most !== undefined && node.subtreeUsage.inputTokens + node.subtreeUsage.outputTokens > most;
  });
  if (!answer.partial) throw new Error('the run ended as a whole; it was to be stopped');
  if (spent > MOST_DOLLARS) throw new Error(`the run spent $${spent}`);
  if (over.length > 0) throw new Error(`${over.length} branches used more than their allowance: ${over[0]!.title}`);
}

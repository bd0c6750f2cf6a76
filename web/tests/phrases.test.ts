import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { sharedOf, titleLines, type Line } from '../src/lib/graph/title';
import { activityOf, activityText } from '../src/lib/phrases';
import { pickNumbers } from '../src/lib/picks';
import { Projection } from '../src/lib/projection/projection';
import { time } from '../src/lib/projection/wire';
import { reasonWords } from '../src/lib/reasons';
import { ToolCalls } from '../src/lib/tool-calls';
import { fixtures } from './fixtures';

const logOf = (name: string) => fixtures().find((fixture) => fixture.name === name)!.events;

function endOf(name: string): Projection {
  const events = logOf(name);
  const graph = new Projection(events[0]!.runId);
  graph.applyEvents(events);
  return graph;
}

const text = (lines: Line[]): string[] => lines.map((line) => line.map((run) => run.text).join(''));
/** A font whose letters are one wide. */
const wide = (most: number) => (words: string) => [...words].length <= most;
const NONE = { before: 0, after: 0 };

describe('a title', () => {
  it('is whole where it fits', () => {
    expect(text(titleLines('How tokio stops its tasks', NONE, 2, wide(15)))).toEqual(['How tokio stops', 'its tasks']);
  });

  it('loses its middle, and keeps its beginning and its end', () => {
    const lines = text(titleLines('How tokio stops all of its many tasks at the end', NONE, 1, wide(24)));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^How .*…/);
    expect(lines[0]!.length).toBeLessThanOrEqual(24);
  });

  it('loses first what all siblings share', () => {
    const [line] = titleLines('How tokio handles graceful shutdown', { before: 1, after: 3 }, 1, wide(12));
    expect(line!.find((run) => !run.dim)!.text).toContain('tokio');
  });

  it('of 1,000 letters, of emoji and without spaces is cut between characters', () => {
    const [one] = text(titleLines('x'.repeat(1000), NONE, 1, wide(10)));
    expect([...one!].length).toBeLessThanOrEqual(10);
    const family = '👩‍👩‍👧‍👦';
    for (const line of text(titleLines(family.repeat(40), NONE, 2, (words) => words.length <= 40)))
      expect(line.replaceAll(family, '').replaceAll('…', '').trim()).toBe('');
  });
});

describe('what siblings share', () => {
  it('is counted in words, and leaves each title a word of its own', () => {
    const graph = endOf('offline');
    for (let at = 1; at < graph.nodes.length; at++) {
      const { before, after } = sharedOf(graph, at);
      expect(before + after).toBeLessThan(graph.nodes[at]!.title.split(/\s+/).length);
    }
    expect(sharedOf(graph, 0)).toEqual(NONE);
  });
});

describe('words for people', () => {
  it.each([
    ['leaf_decision:direct', 'works alone: a small task'],
    ['guard:maxDepth', 'not divided further: the depth limit is reached'],
    ['guard:maxTime', 'works alone: the budget is nearly used'],
    ['guard:lease', 'less of the budget was free than planned'],
    ['retry:2/3 after overloaded: bad luck', 'tries again (2 of 3 after overloaded: bad luck)'],
    ['execute: The step names 1 document.; complexity: low', 'works alone: The step names 1 document.'],
    ['budget maxTokens is used up', 'the token limit is used up'],
    ['anything else', 'anything else'],
  ])('say %j as %j', (code, words) => expect(reasonWords(code)).toBe(words));

  it('say for whom a blocked node waits, and how long it still does', () => {
    const message = 'blocked:provider:the circuit is open for 20 s more after: the model server answered HTTP 429';
    expect(reasonWords(message, 8_000)).toBe(
      'waits for the model server, again in 12 s: the model server answered HTTP 429',
    );
    expect(reasonWords(message, 21_000)).not.toContain('again');
    expect(reasonWords('blocked:the planner restarts', 1)).toBe('waits: the planner restarts');
  });

  it('know every code that the engine writes into a log', () => {
    const folder = new URL('../../crates/engine/src/', import.meta.url);
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.rs'));
    // Literals that are a code, or the name of a budget that becomes one.
    const literals = files.flatMap((name) =>
      [...readFileSync(new URL(name, folder), 'utf8').matchAll(/"((?:[a-z_]+:)?[a-z]\w+)[" {]/gi)].map(
        ([, code]) => code!,
      ),
    );
    const guards = new Set(literals.flatMap((code) => /^(?:guard:)?(max[A-Z]\w+)$/.exec(code)?.[1] ?? []));
    for (const name of ['budget', 'stopped', 'aggregationFailed', 'replanFailed', 'lease']) guards.add(name);
    expect(guards.size).toBeGreaterThan(12);
    const codes = literals.filter((code) => /^(guard|leaf_decision|retry|budget|blocked|pick):/.test(code));
    expect(codes.length).toBeGreaterThan(8);
    const named = [...guards].flatMap((name) =>
      name.startsWith('max') ? [`guard:${name}`, `budget:${name}`, name] : [`guard:${name}`],
    );
    for (const code of [...codes, ...named])
      expect(reasonWords(code), code).not.toMatch(/max[A-Z]|^cut: |guard|leaf_decision|(aggregation|replan)Failed/);
  });

  it('name the document that a call reads, once its name is known', () => {
    const calls = new ToolCalls();
    const events = logOf('offline');
    for (const event of events) calls.note(event);
    const subjects = events.flatMap(({ body }) =>
      body.case === 'toolCallRequested' && body.value.toolName === 'read_document'
        ? [calls.subject(body.value.callId)]
        : [],
    );
    expect(subjects.length).toBeGreaterThan(0);
    for (const subject of subjects) expect(subject).toMatch(/^n\d\.md$/);
  });

  it('say what each node of a recorded run does, at every moment', () => {
    const events = logOf('offline');
    const graph = new Projection(events[0]!.runId);
    const said = new Set<string>();
    for (const event of events) {
      graph.applyEvent(event);
      const moment = time(event.timestamp);
      graph.nodes.forEach((node, at) => said.add(activityText(activityOf(node, graph, at, moment))));
    }
    const all = [...said].join('\n');
    const tools = [/^TOOL: read_document \[RUNNING\]$/m, /^TOOL: read_document \[OK\]$/m];
    for (const phrase of [/^waiting for \d of \d$/m, /^making a plan$/m, ...tools, /^\d of \d done$/m])
      expect(all).toMatch(phrase);
    expect(all).not.toMatch(/leaf_decision|guard:|complexity:/);
  });
});

describe('the picks of a search', () => {
  it('are numbered in the order in which they were picked, also when all is done', () => {
    const picked = logOf('search').flatMap(({ nodeId, body }) =>
      body.case === 'leafPicked' ? [body.value.leafNodeId || nodeId] : [],
    );
    const { nodes } = endOf('search');
    const number = pickNumbers(nodes);
    expect(picked.length).toBeGreaterThan(1);
    const numbered = nodes.filter((node) => number(node) !== undefined);
    expect(numbered.toSorted((a, b) => number(a)! - number(b)!).map(({ id }) => id)).toEqual(picked);
  });
});

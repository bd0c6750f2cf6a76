import { describe, expect, it } from 'vitest';
import { Projection } from '../src/lib/projection/projection';
import { History } from '../src/lib/projection/history';
import { FINAL, progressOf } from '../src/lib/projection/model';
import { time } from '../src/lib/projection/wire';
import { bandsOf, bandWords } from '../src/lib/graph/bands';
import { tidy } from '../src/lib/graph/tidy';
import { Course } from '../src/lib/time/course';
import { criticalPath, longest, places, Spans } from '../src/lib/time/spans';
import { bigLog, runId } from '../e2e/logs';
import { fixtures } from './fixtures';

const logOf = (name: string) => fixtures().find((fixture) => fixture.name === name)!.events;

const courseOf = (events: Iterable<Parameters<Course['add']>[0]>): Course => {
  const course = new Course();
  for (const event of events) course.add(event);
  return course;
};

describe('the clock of a run', () => {
  it('is the same whether the log arrived at once or in three pages', () => {
    const { events } = bigLog(runId(1), 600, 6);
    expect(events.length).toBeGreaterThan(2000);
    const whole = courseOf(events);
    const history = new History(runId(1), new Projection(runId(1)).shape, events.length);
    const parts = new Course();
    for (let from = 0; from < events.length; from += 1000) {
      history.fill(events.slice(from, from + 1000));
      for (const event of history.from(parts.size)) parts.add(event);
    }
    expect(parts.size).toBe(events.length);
    for (const seq of [1, 2, 999, 1000, 1001, events.length]) expect(parts.elapsed(seq)).toBe(whole.elapsed(seq));
    expect(whole.elapsed(events.length)).toBeGreaterThan(1000);
    expect(parts.begin).toBe(time(events[1]!.timestamp));
  });

  it('of a fork begins with the fork, and what it shares keeps the clock of its source', () => {
    const events = logOf('leases-fork');
    const course = courseOf(events);
    const fork = events.findIndex(({ body }) => body.case === 'runForked') + 1;
    expect(course.elapsed(fork)).toBe(0);
    expect(course.elapsed(fork - 1)).toBeGreaterThan(0);
    const [at, end] = [time(events[fork - 1]!.timestamp), time(events.at(-1)!.timestamp)];
    expect(course.elapsed(events.length)).toBeCloseTo(end - at, 6);
  });

  it('has an axis whose marks stand at their times, in order', () => {
    for (const name of ['offline', 'leases-fork', 'search']) {
      const course = courseOf(logOf(name));
      const end = course.end(0);
      const ticks = course.ticks(end, 8);
      expect(ticks.length).toBeGreaterThan(1);
      let before = -1;
      for (const { place, ms } of ticks) {
        expect(place).toBeGreaterThanOrEqual(before);
        expect(place).toBeLessThanOrEqual(end + 1);
        const seq = course.seqAt(place);
        if (seq > 0) expect(course.elapsed(seq)).toBeLessThanOrEqual(ms + 1e-6);
        before = place;
      }
    }
  });
});

describe('the critical path', () => {
  it('goes back from the end of each node to the child that ended last before', () => {
    for (const name of ['offline', 'replan', 'failures']) {
      const events = logOf(name);
      const graph = new Projection(events[0]!.runId);
      graph.applyEvents(events);
      const end = time(events.at(-1)!.timestamp);
      const path = criticalPath(graph, end);
      expect(path.has(0)).toBe(true);
      for (const at of path) {
        const began = graph.childrenOf(at).filter((child) => graph.nodes[child]!.startedAt !== undefined);
        const last = began.toSorted((a, b) => graph.nodes[b]!.endedAt! - graph.nodes[a]!.endedAt!)[0];
        if (last !== undefined) expect(path.has(last), name).toBe(true);
      }
      const { at, ms } = longest(graph, path, courseOf(events).begin!, end);
      expect(path.has(at)).toBe(true);
      expect(ms).toBeGreaterThan(0);
      expect(ms).toBeLessThanOrEqual(end - time(events[0]!.timestamp));
    }
  });

  it('is drawn from phases that follow one another', () => {
    const events = logOf('failures');
    const spans = new Spans();
    for (const event of events) spans.add(event);
    const course = courseOf(events);
    for (const { nodeId } of events.filter(({ body }) => body.case === 'nodeCreated')) {
      const span = spans.of(nodeId)!;
      for (const at of span.phases.keys()) {
        const [from, to] = places(span, at, course, course.end(0));
        expect(to).toBeGreaterThanOrEqual(from);
      }
      expect(FINAL.has(span.phases.at(-1)!.status)).toBe(true);
    }
  });
});

describe('bands', () => {
  it('are named where a family has several, and stand apart', () => {
    const events = logOf('leases');
    const graph = new Projection(events[0]!.runId);
    graph.applyEvents(events);
    const bands = bandsOf(graph);
    expect(graph.nodes.filter((_, at) => bandWords(graph, bands, at)?.startsWith('then')).length).toBeGreaterThan(0);
    for (const [at, node] of graph.nodes.entries()) {
      const words = bandWords(graph, bands, at);
      const family = graph.nodes.filter(({ parentId }) => parentId === node.parentId);
      const isFirst = family[0] === node;
      if (new Set(family.map(({ bandIndex }) => bandIndex)).size > 1 && isFirst) expect(words).toMatch(/^first/);
      if (words?.startsWith('then')) expect(isFirst).toBe(false);
    }
    const breaks = Uint8Array.from([0, 1, 0, 1]);
    const plain = tidy(Int32Array.from([-1, 0, 0, 0]), 1);
    const apart = tidy(Int32Array.from([-1, 0, 0, 0]), 1, undefined, breaks);
    expect(apart.ys[2]! - apart.ys[1]!).toBe(plain.ys[2]! - plain.ys[1]!);
    expect(apart.ys[3]! - apart.ys[2]!).toBeGreaterThan(plain.ys[3]! - plain.ys[2]!);
  });
});

describe('progress', () => {
  it('of whoever waits is the share of its steps that have ended, after each of them', () => {
    const events = logOf('offline');
    const graph = new Projection(events[0]!.runId);
    const seen: string[] = [];
    for (const event of events) {
      graph.applyEvent(event);
      const progress = graph.nodes[0] && progressOf(graph.nodes[0]);
      if (progress !== undefined && progress.text !== seen.at(-1)) seen.push(progress.text);
      if (progress !== undefined) expect(progress.text).toBe(`${progress.part * 4} of 4 steps`);
    }
    expect(seen).toEqual(['0 of 4 steps', '1 of 4 steps', '2 of 4 steps', '3 of 4 steps', '4 of 4 steps']);
  });
});

import { describe, expect, it } from 'vitest';
import { Projection } from '../src/lib/projection/projection';
import { History } from '../src/lib/projection/history';
import { progressOf } from '../src/lib/projection/model';
import { time } from '../src/lib/projection/wire';
import { Course } from '../src/lib/time/course';
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

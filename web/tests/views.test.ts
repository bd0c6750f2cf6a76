import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { BudgetsSchema, PickerPolicy, Strategy } from '../src/gen/treeagent/v1/common_pb';
import { spending } from '../src/lib/spending';
import { Camera, framing, type Box } from '../src/lib/graph/camera';
import type { Size } from '../src/lib/graph/tidy';
import { filterNodes } from '../src/lib/filter';
import { Scene } from '../src/lib/graph/scene';
import { CHIP_PX, visible, type View } from '../src/lib/graph/visible';
import { best, CARD_HEIGHT, CARD_WIDTH, COLUMN, tidy } from '../src/lib/graph/tidy';
import { checkName, checkObjective, tooLong } from '../src/lib/new-run';
import { checkLimit, current, LIMITS, strategyLimits, toBudgets } from '../src/lib/budgets';
import { Projection } from '../src/lib/projection/projection';
import { checkCount, checkSchema, defaultOptions, toSearch } from '../src/lib/search-options';
import { shellWord } from '../src/lib/share';
import { treeRows } from '../src/lib/tree-rows';
import { clip, cost, duration } from '../src/lib/format';
import { describe as describeEvent, EVENT_TYPES, eventType, typeOf } from '../src/lib/events';
import { NO_USAGE, type GraphNode, type NodeStatus } from '../src/lib/projection/model';
import { expansionOf, isPicked } from '../src/lib/projection/model';
import { lookOf } from '../src/lib/status';
import { toolCalls } from '../src/lib/node-events';
import { fixtures } from './fixtures';

function projection(parents: number[], status: (i: number) => NodeStatus = () => 'completed'): Projection {
  const depth: number[] = [];
  const nodes = parents.map((p, i): GraphNode => {
    depth.push(p < 0 ? 0 : depth[p]! + 1);
    return {
      id: `n${i}`,
      ...(p < 0 ? {} : { parentId: `n${p}` }),
      title: `Node ${i}`,
      reason: '',
      successCriteria: [],
      status: status(i),
      role: 'executor',
      depth: depth[i]!,
      artifacts: [],
      usage: NO_USAGE,
      subtreeUsage: NO_USAGE,
      createdAt: 0,
      ...(status(i) === 'failed' ? { error: 'the disk is full' } : {}),
    };
  });
  return Projection.fromSnapshot({ runId: 'r', seq: 1, status: 'running', partial: false, nodes });
}

const wide = projection(
  Array.from({ length: 1111 }, (_, i) => (i === 0 ? -1 : Math.floor((i - 1) / 10))),
  (i) => (i === 777 ? 'failed' : 'completed'),
);

const ALL = { right: 0, bottom: 0 };

function laid(graph: Projection, collapsed = new Set<string>(), room?: Size): Scene {
  const scene = new Scene();
  scene.update(graph, collapsed);
  const { parents } = scene.request(1);
  scene.place(room === undefined ? tidy(parents) : best(parents, room), 0, false, 0);
  return scene;
}

const boxOf = (scene: Scene): Box => ({
  left: 0,
  right: scene.deepest[0]! * COLUMN + CARD_WIDTH,
  top: scene.top[0]!,
  bottom: scene.bottom[0]! + CARD_HEIGHT,
});

/** What a follower sees. */
function fitted(scene: Scene, size: Size): View {
  const camera = new Camera();
  camera.move(framing(size, boxOf(scene), ALL));
  return visible(scene, camera, size);
}

describe('the view', () => {
  it('draws few things however large the tree, and a failure stays visible', () => {
    const scene = laid(wide);
    const { items } = fitted(scene, { width: 1000, height: 700 });
    expect(items.length).toBeLessThan(160);
    const bundles = items.filter((i) => i.bundle);
    expect(bundles.length).toBeGreaterThan(5);
    expect(bundles.filter((b) => scene.tally(b.at, 6) > 0)).toHaveLength(1);
  });

  it.each([26, 85, 259, 1111])('hides none of %d nodes: each is a chip, or a dot of a counted group', (count) => {
    const fanout = { 26: 5, 85: 4, 259: 6, 1111: 10 }[count]!;
    const tree = projection(Array.from({ length: count }, (_, i) => (i === 0 ? -1 : Math.floor((i - 1) / fanout))));
    const size = { width: 1160, height: 760 };
    const scene = laid(tree, new Set(), size);
    const { items } = fitted(scene, size);
    const inBundles = items.reduce((n, item) => n + (item.bundle ? scene.total(item.at) : 1), 0);
    expect(inBundles).toBe(count);
    for (const item of items) {
      expect(item.height).toBeGreaterThanOrEqual(CHIP_PX - 1);
      expect(item.x).toBeGreaterThanOrEqual(0);
      expect(item.x + item.width).toBeLessThanOrEqual(size.width);
      expect(item.y).toBeGreaterThanOrEqual(0);
      expect(item.y + item.height).toBeLessThanOrEqual(size.height);
    }
    // A small tree needs no groups.
    if (count <= 85) expect(items.every((item) => !item.bundle)).toBe(true);
  });

  it('becomes one node for a fan-out of 10,000 when zoomed out', () => {
    const scene = laid(projection(Array.from({ length: 10_001 }, (_, i) => (i === 0 ? -1 : 0))));
    const { items } = fitted(scene, { width: 1000, height: 700 });
    expect(items).toHaveLength(1);
    expect(scene.total(0)).toBe(10_001);
  });

  it.each([300, 444, 700, 1200])('shows a whole tree in %d pixels of width', (width) => {
    for (const height of [300, 700]) {
      const camera = new Camera();
      const box = { left: 0, right: 2 * COLUMN + CARD_WIDTH, top: -400, bottom: 900 };
      camera.move(framing({ width, height }, box, { right: 0, bottom: 30 }));
      expect(camera.x(box.left)).toBeGreaterThanOrEqual(27.9);
      expect(camera.x(box.right)).toBeLessThanOrEqual(width - 27.9);
      expect(camera.y(box.top)).toBeGreaterThanOrEqual(27.9);
      expect(camera.y(box.bottom)).toBeLessThanOrEqual(height - 57.9);
    }
  });

  it('makes cards wider where there is room, up to 320 pixels, and never taller than they are', () => {
    const camera = new Camera();
    camera.move(framing({ width: 1400, height: 900 }, boxOf(laid(projection([-1, 0, 0]))), ALL));
    expect(camera.k).toBe(1);
    expect(camera.kx * CARD_WIDTH).toBe(320);
  });

  it('keeps on its way in view what is in view at both ends, while the tree grows', () => {
    const camera = new Camera();
    const size = { width: 1400, height: 900 };
    const small = { left: 0, right: 2 * COLUMN, top: 0, bottom: 300 };
    const large = { left: 0, right: 9 * COLUMN, top: -2000, bottom: 5000 };
    const [before, after] = [framing(size, small, ALL), framing(size, large, ALL)];
    for (let part = 0; part <= 1; part += 0.05) {
      camera.move(after, before, part);
      // A node on its way from a corner of the one tree to that of the other.
      const between = (from: number, to: number): number => from + (to - from) * part;
      expect(camera.x(between(small.right, large.right))).toBeLessThanOrEqual(size.width);
      expect(camera.y(between(small.top, large.top))).toBeGreaterThanOrEqual(0);
      expect(camera.y(between(small.bottom, large.bottom))).toBeLessThanOrEqual(size.height);
    }
  });

  it('moves no farther than a card needs, and not behind what covers it', () => {
    const camera = new Camera();
    const size = { width: 740, height: 800 };
    camera.reveal(size, 0, 0, ALL);
    expect([camera.tx, camera.ty]).toEqual([28, 28]);
    camera.reveal(size, 3 * COLUMN, 4000, { right: 200, bottom: 0 });
    expect(camera.x(3 * COLUMN) + CARD_WIDTH * camera.kx).toBeCloseTo(size.width - 200 - 28);
    expect(camera.y(4000) + CARD_HEIGHT * camera.k).toBeCloseTo(size.height - 28);
  });

  it('leaves the anchor where it is, whatever grows', () => {
    const scene = laid(projection([-1, 0, 0, 0, 3]));
    const before = scene.target[4]!;
    scene.update(projection([-1, 0, 0, 0, 3, 1, 1, 1, 1]), new Set());
    scene.place(tidy(scene.request(1).parents), 4, false, 0);
    expect(scene.target[4]).toBe(before);
  });

  it('collapses a subtree', () => {
    const scene = laid(wide, new Set(['n1']));
    expect(scene.request(1).parents).toHaveLength(1111 - 110);
    expect(scene.total(1)).toBe(111);
  });

  it('zooms around the pointer', () => {
    const camera = new Camera();
    for (const factor of [0.3, 0.2, 5, 1.7]) {
      const before = [(333 - camera.tx) / camera.kx, (222 - camera.ty) / camera.k];
      camera.zoom(factor, 333, 222);
      expect(camera.x(before[0]!)).toBeCloseTo(333, 6);
      expect(camera.y(before[1]!)).toBeCloseTo(222, 6);
    }
  });
});

describe('filters and rows', () => {
  it('find by status, title, error and scratchpad', () => {
    expect([...filterNodes(wide.nodes, { query: '', quick: 'failed' })]).toEqual([777]);
    expect([...filterNodes(wide.nodes, { query: 'disk is', quick: 'all' })]).toEqual([777]);
    expect(filterNodes(wide.nodes, { query: 'node 11', quick: 'all' }).size).toBe(22);
    expect(filterNodes(wide.nodes, { query: '', quick: 'blocked' }).size).toBe(0);
    const one = { ...wide.nodes[3]!, scratchpadDocId: 'doc' };
    expect([...filterNodes([one], { query: 'tide', quick: 'all' }, new Map([['doc', 'The Tide turns']]))]).toEqual([0]);
  });

  it('lead to every match and show what is collapsed', () => {
    const rows = treeRows(wide, new Set(), new Set([777]));
    expect(rows.map((r) => [r.id, r.faded])).toEqual([
      ['n0', true],
      ['n7', true],
      ['n77', true],
      ['n777', false],
    ]);
    const folded = treeRows(wide, new Set(['n7']), undefined);
    expect(folded.find((r) => r.id === 'n7')).toMatchObject({
      expanded: false,
      failedBelow: 1,
      place: 7,
      siblings: 10,
    });
    expect(folded).toHaveLength(1111 - 110);
  });

  it('groups the tasks of homework by iteration', () => {
    const homework = projection([-1, 0, 0, 0, 0, 1]);
    [1, 1, 2, 3].forEach((iteration, i) =>
      Object.assign(homework.nodes[i + 1]!, { task: { iteration, branchId: `b${i}` } }),
    );
    const begins = (matches?: Set<number>): [string, number | undefined][] =>
      treeRows(homework, new Set(), matches).map((row) => [row.id, row.iteration]);
    expect(begins()).toEqual([
      ['n0', undefined],
      ['n1', 1],
      ['n5', undefined],
      ['n2', undefined],
      ['n3', 2],
      ['n4', 3],
    ]);
    expect(begins(new Set([2, 4])), 'the first row that is shown').toEqual([
      ['n0', undefined],
      ['n2', 1],
      ['n4', 3],
    ]);
  });
});

describe('the form for a new run', () => {
  it('finds what the API would refuse', () => {
    expect(checkObjective('  ')).not.toBe('');
    expect(checkObjective('x'.repeat(16_385))).toContain('16385');
    expect(checkObjective('ü'.repeat(8_192))).toBe('');
    const depth = LIMITS[0]!;
    for (const bad of ['-1', '65', '1.5', 'many', '1e99']) expect(checkLimit(depth, bad), bad).not.toBe('');
    for (const good of ['', ' ', '0', '64']) expect(checkLimit(depth, good), good).toBe('');
    expect(checkName('ü'.repeat(128))).toBe('');
    expect(checkName('ü'.repeat(129))).toContain('258');
    expect(checkName('a\nb')).not.toBe('');
    expect(toBudgets(LIMITS, { maxDepth: '3', maxWallClockMs: '2', maxCostMicros: '0.5', maxNodes: '' })).toEqual({
      maxDepth: 3,
      maxWallClockMs: 120_000n,
      maxCostMicros: 500_000n,
    });
  });
});

describe('the options of a search', () => {
  it('find what the API would refuse', () => {
    for (const bad of ['0', '257', '1.5', 'many', '-1']) expect(checkCount(bad, 256), bad).toContain('from 1 to 256');
    for (const good of ['', ' ', '1', '256']) expect(checkCount(good, 256), good).toBe('');
    expect(tooLong('ü'.repeat(32_768), 65_536)).toBe('');
    expect(tooLong('ü'.repeat(32_769), 65_536)).toContain('65538');
    expect(tooLong('four', 3)).toContain('3 are allowed');
    for (const good of ['', '{}', '{"type": "object"}']) expect(checkSchema(good), good).toBe('');
    for (const bad of ['[]', 'null', '{"type"', '1']) expect(checkSchema(bad), bad).not.toBe('');
  });

  it('leave what is empty to the server', () => {
    const none = { root: undefined, document: undefined, children: undefined, picker: undefined };
    expect(toSearch(defaultOptions())).toEqual({
      concurrency: undefined,
      maxDepth: undefined,
      picker: PickerPolicy.LLM,
      synthesis: true,
      prompts: none,
      frontmatterSchema: undefined,
    });
    const given = {
      ...defaultOptions(),
      concurrency: '2',
      maxDepth: '3',
      children: 'List.',
      schema: '{"type": "object"}',
      synthesis: false,
    };
    expect(toSearch(given)).toMatchObject({
      concurrency: 2,
      maxDepth: 3,
      synthesis: false,
      prompts: { children: 'List.' },
      frontmatterSchema: { type: 'object' },
    });
  });

  it('hide and send no budgets of plans', () => {
    const keys = strategyLimits(Strategy.SEARCH).map((field) => field.key);
    expect(keys).toEqual(['maxNodes', 'maxWallClockMs', 'maxTokens', 'maxCostMicros', 'maxToolCalls']);
    expect(toBudgets(strategyLimits(Strategy.SEARCH), { maxDepth: '3', maxNodes: '9' })).toEqual({ maxNodes: 9 });
    const ofHomework = strategyLimits(Strategy.HOMEWORK);
    expect(ofHomework.map((field) => field.key)).toEqual([
      'maxNodes',
      'maxParallelSteps',
      'maxIterations',
      'maxWallClockMs',
      'maxTokens',
      'maxCostMicros',
      'maxToolCalls',
    ]);
    expect(toBudgets(ofHomework, { maxDepth: '3', maxIterations: '2' })).toEqual({ maxIterations: 2 });
    expect(strategyLimits(Strategy.TREE).map((field) => field.key)).not.toContain('maxIterations');
  });
});

describe('budgets in the form', () => {
  it('have the limits and defaults of the server', () => {
    const [depth, dollars] = ['maxDepth', 'maxCostMicros'].map((key) => LIMITS.find((field) => field.key === key)!);
    const server = create(BudgetsSchema, { maxDepth: 8, maxCostMicros: 2_500_000n });
    expect(checkLimit(depth!, '9')).toBe('');
    expect(checkLimit(depth!, '9', server)).toContain('from 0 to 8');
    expect(checkLimit(dollars!, '2.51', server)).toContain('to 2.5');
    expect([current(depth!, server), current(depth!, undefined), current(dollars!, server)]).toEqual(['8', '', '2.5']);
  });
});

describe('words', () => {
  it('are short and safe', () => {
    expect(shellWord("it's; rm -rf /")).toBe(`'it'\\''s; rm -rf /'`);
    expect(shellWord('plain-1.0')).toBe('plain-1.0');
    expect(clip('a\n\n b'.repeat(100), 10)).toHaveLength(10);
    expect([cost(0), cost(12), cost(5_000), cost(1_230_000)]).toEqual(['$0', '<$0.0001', '$0.0050', '$1.23']);
    expect([duration(12), duration(1500), duration(61_000)]).toEqual(['12 ms', '1.5 s', '1 min 1 s']);
    expect(typeOf('toolCallRequested')).toBe('tree.tool_call_requested');
    expect(EVENT_TYPES).toHaveLength(41);
  });

  it('describe every recorded event', () => {
    for (const { events } of fixtures())
      for (const event of events) {
        expect(EVENT_TYPES).toContain(eventType(event));
        expect(describeEvent(event).length).toBeLessThan(400);
      }
  });
});

describe('budgets of a run', () => {
  it('shows the use of those that have a limit', () => {
    const graph = projection([-1, 0, 0], () => 'completed');
    const stats = {
      ...graph.stats,
      usage: { ...NO_USAGE, inputTokens: 700, outputTokens: 200, costMicros: 2_000_000, toolCalls: 3 },
    };
    const budgets = create(BudgetsSchema, { maxNodes: 6, maxTokens: 1000n, maxCostMicros: 1_000_000n });
    expect(spending(budgets, stats.nodes, stats.usage)).toEqual([
      { name: 'Nodes', text: '3 of 6', part: 0.5 },
      { name: 'Tokens', text: '900 of 1,000', part: 0.9 },
      { name: 'Cost', text: '$2.00 of $1.00', part: 1 },
    ]);
  });
});

describe('a guided search', () => {
  const { events } = fixtures().find((f) => f.name === 'search')!;
  const at = (seq: number) => {
    const graph = new Projection(events[0]!.runId);
    graph.applyEvents(events.slice(0, seq));
    const shown = graph.nodes.slice(1).map((node, i) => {
      const hasChildren = graph.childrenOf(i + 1).length > 0;
      return [
        node.title,
        { look: lookOf(node, hasChildren).label, expansion: expansionOf(node, hasChildren), picked: isPicked(node) },
      ] as const;
    });
    return Object.fromEntries(shown);
  };

  it('shows how far the research of each topic has come, in the words of the files on disk', () => {
    const end = at(events.length);
    expect(end['Storage']).toEqual({ look: 'Expanded', expansion: 'expanded', picked: false });
    expect(end['Pages']).toEqual({ look: 'Leaf', expansion: 'leaf', picked: false });
    expect(end['Vacuum']).toEqual({ look: 'Unexpanded (failed)', expansion: 'unexpanded', picked: false });
    expect(end['Roles']).toEqual({ look: 'Unexpanded (cancelled)', expansion: 'unexpanded', picked: false });
  });

  it('marks a topic from its pick until its research ends', () => {
    const picked = events.findIndex((e) => e.body.case === 'leafPicked') + 1;
    const { body } = events[picked - 1]!;
    const leaf = body.case === 'leafPicked' ? body.value.leafNodeId : '';
    expect(at(picked - 1)['Rights']).toEqual({ look: 'Unexpanded', expansion: 'unexpanded', picked: false });
    expect(at(picked)['Rights']).toMatchObject({ expansion: 'unexpanded', picked: true });
    expect(at(picked)['Storage']).toMatchObject({ look: 'Expanded', picked: false });
    const begun = events.findIndex((e, i) => i >= picked && e.body.case === 'nodeStatus' && e.nodeId === leaf) + 1;
    expect(at(begun)['Rights']).toEqual({ look: 'In progress', expansion: 'in-progress', picked: true });
  });
});

describe('tool calls', () => {
  it('tell which answers were known, and where each whole answer is', () => {
    const { events } = fixtures().find((f) => f.name === 'known-answers')!;
    const calls = [...new Set(events.map((e) => e.nodeId))].flatMap((node) =>
      toolCalls(
        events.filter((e) => e.nodeId === node),
        () => 0,
      ),
    );
    const known = calls.filter((call) => call.cached);
    expect(known.length).toBeGreaterThan(3);
    expect(known.every((call) => calls.some((other) => !other.cached && other.answerId === call.answerId))).toBe(true);
    expect(describeEvent(events.find((e) => e.body.case === 'toolCallRequested' && e.body.value.cached)!)).toContain(
      '[KNOWN]',
    );
    const graph = new Projection(events[0]!.runId);
    graph.applyEvents(events);
    expect(graph.stats.usage.toolCalls).toBe(calls.length - known.length);
  });
});

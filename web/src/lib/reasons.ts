// The codes of reasons in plain words. A reason is a word, a colon, and what it is about: `guard:maxDepth`.

const LIMITS: Record<string, string> = {
  maxDepth: 'the depth that is allowed',
  maxNodes: 'the number of nodes that is allowed',
  maxChildrenPerNode: 'the number of children that is allowed',
  maxBandsPerPlan: 'the number of bands that is allowed',
  maxStepsPerBand: 'the number of steps that is allowed',
  maxReplansPerNode: 'the number of new plans that is allowed',
  maxIterations: 'the number of iterations that is allowed',
  maxWallClockMs: 'the time that is allowed',
  maxTokens: 'the tokens that are allowed',
  maxCostMicros: 'the cost that is allowed',
  maxToolCalls: 'the tool calls that are allowed',
  lease: 'its share of the budget',
};

/** A budget in words, such as the depth that is allowed. */
export const limitWords = (limit: string): string => LIMITS[limit] ?? limit;

/** A reason as people read it. Free text stays as it is. */
export function reasonWords(reason: string): string {
  const [, kind, about] = /^(leaf_decision|guard|retry|budget|blocked|execute|plan):\s*([^]*)$/.exec(reason) ?? [];
  if (kind === undefined || about === undefined) return reason;
  switch (kind) {
    case 'leaf_decision':
      return about === 'direct' ? 'works alone: a small task' : `works alone: ${about}`;
    case 'guard':
      if (about === 'aggregationFailed') return 'returns its parts: they could not be put together';
      if (about === 'replanFailed') return 'goes on without a new plan, which failed';
      if (about === 'stopped') return 'stopped by a person';
      // A node that may not plan any more does the work itself.
      if (about === 'maxDepth' || about === 'maxNodes') return `works alone: it reached ${limitWords(about)}`;
      return about in LIMITS ? `cut by ${limitWords(about)}` : `cut: ${about.replace(/^lease /, '')}`;
    case 'budget':
      return about in LIMITS ? `used up ${limitWords(about)}` : about;
    case 'retry':
      return `tries again (${about.replace('/', ' of ')})`;
    case 'blocked':
      return `waits: ${about.replace(/^provider:/, '')}`;
    case 'execute':
      return `works alone: ${about.replace(/;? ?complexity: \w+$/, '')}`;
    default:
      return `makes a plan: ${about.replace(/;? ?complexity: \w+$/, '')}`;
  }
}

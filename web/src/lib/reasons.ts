// The codes of reasons in plain words. A reason is a word, a colon, and what it is about: `guard:maxDepth`.

const LIMITS: Record<string, string> = {
  maxDepth: 'the depth limit',
  maxNodes: 'the limit of nodes',
  maxChildrenPerNode: 'the limit of children',
  maxBandsPerPlan: 'the limit of bands',
  maxStepsPerBand: 'the limit of steps',
  maxReplansPerNode: 'the limit of new plans',
  maxIterations: 'the limit of iterations',
  maxParallelSteps: 'the limit of parallel steps',
  maxAttempts: 'the limit of attempts',
  maxWallClockMs: 'the time limit',
  maxTime: 'the time limit',
  maxTokens: 'the token limit',
  maxCostMicros: 'the cost limit',
  maxToolCalls: 'the limit of tool calls',
};

/** Limits of which so little was left that a node did its task itself instead of dividing it. */
const NEARLY_USED = new Set(['maxTokens', 'maxCostMicros', 'maxTime']);

const GUARDS: Record<string, string> = {
  aggregationFailed: 'returns its parts: they could not be put together',
  replanFailed: 'goes on without a new plan, which failed',
  stopped: 'stopped by a person, returns what it has',
  budget: 'its budget is used up, returns what it has',
  lease: 'less of the budget was free than planned',
};

/** A budget in words, such as the depth limit. */
export const limitWords = (limit: string): string => LIMITS[limit] ?? limit;

/** A text in which the names of budgets are words: `budget maxTokens is used up`. */
const plain = (text: string): string =>
  text.replace(/\b(?:the )?(?:budget )?(max[A-Z]\w+)\b/g, (name, code: string) => LIMITS[code] ?? name);

const OPEN = /^the circuit is open for (\d+) s more after: ([^]*)$/;

/** What a blocked node waits for. `waited` is for how long it has been blocked, in milliseconds. */
function blockedWords(about: string, waited: number | undefined): string {
  const isProvider = about.startsWith('provider:');
  const why = about.replace(/^provider:/, '');
  const [, seconds, cause] = OPEN.exec(why) ?? [];
  const left = seconds === undefined || waited === undefined ? 0 : Math.ceil(Number(seconds) - waited / 1000);
  return `waits${isProvider ? ' for the model server' : ''}${left > 0 ? `, again in ${left} s` : ''}: ${plain(cause ?? why)}`;
}

/** A reason as people read it. Other text stays as it is, but for the names of budgets in it. */
export function reasonWords(reason: string, waited?: number): string {
  const [, kind, about] = /^(leaf_decision|guard|retry|budget|blocked|pick|execute|plan):\s*([^]*)$/.exec(reason) ?? [];
  if (kind === undefined || about === undefined) return reason === 'stopped' ? 'stopped by a person' : plain(reason);
  switch (kind) {
    case 'leaf_decision':
      return about === 'direct' ? 'works alone: a small task' : `works alone: ${about}`;
    case 'guard': {
      const [, name, rest] = /^(\w+)\s*([^]*)$/.exec(about) ?? [];
      if (name === undefined) return plain(about);
      if (NEARLY_USED.has(name)) return 'works alone: the budget is nearly used';
      if (name === 'maxDepth') return 'not divided further: the depth limit is reached';
      if (name === 'maxNodes') return 'not divided further: the limit of nodes is near';
      if (name in LIMITS) return `cut by ${limitWords(name)}`;
      return name === 'lease' && rest ? plain(rest) : (GUARDS[name] ?? plain(about));
    }
    case 'budget':
      return about in LIMITS ? `${limitWords(about)} is reached` : plain(about);
    case 'retry':
      return `tries again (${plain(about.replace('/', ' of '))})`;
    case 'pick':
      return `picks again: ${about.replace(/^again:/, '')}`;
    case 'blocked':
      return blockedWords(about, waited);
    case 'execute':
      return `works alone: ${about.replace(/;? ?complexity: \w+$/, '')}`;
    default:
      return `makes a plan: ${about.replace(/;? ?complexity: \w+$/, '')}`;
  }
}

// Plain words for the types of events. The log itself stays one click away.

const EVENTS: Record<string, string> = {
  run_status: 'Run status changed',
  node_status: 'Status changed',
  plan_band_created: 'Band planned',
  step_created: 'Step planned',
  step_status: 'Step changed',
  node_delegated: 'Child started',
  scratchpad_updated: 'Note written',
  artifact_cited: 'Citations checked',
  node_result: 'Result returned',
  parent_hint: 'Read what its children wrote',
  node_aggregated: 'Results combined',
  replan_requested: 'New plan asked for',
  usage_recorded: 'Model used',
  budget_exhausted: 'Budget used up',
  leaf_picked: 'Topic chosen',
  session_forked: 'Conversation begun',
  rollup_updated: 'Iteration summarised',
  tool_call_requested: 'Tool called',
  tool_call_result: 'Tool answered',
  call_stopped: 'Call stopped',
  lease_covered: 'Budget extended',
};

/** The type of an event: `tree.node_status`. */
export function eventWords(type: string): string {
  const name = type.replace(/^tree\./, '');
  return EVENTS[name] ?? (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll('_', ' ');
}

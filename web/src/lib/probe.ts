// Measurements for the benchmark. Without a listener a probe costs one comparison.

/** `active` and `drawn`: how many of the active nodes, and of all nodes, are in view, and how many there are. */
export type Moment = 'received' | 'applied' | 'painted' | 'layout' | 'active' | 'drawn';

declare global {
  var treeAgentProbe: ((moment: Moment, seq: number, ms: number) => void) | undefined;
}

export function probe(moment: Moment, seq: number, ms = 0): void {
  globalThis.treeAgentProbe?.(moment, seq, ms);
}

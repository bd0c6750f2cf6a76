// Measurements for the benchmark. Without a listener a probe costs one comparison.

export type Moment = 'received' | 'applied' | 'painted' | 'layout';

declare global {
  var treeAgentProbe: ((moment: Moment, seq: number, ms: number) => void) | undefined;
}

export function probe(moment: Moment, seq: number, ms = 0): void {
  globalThis.treeAgentProbe?.(moment, seq, ms);
}

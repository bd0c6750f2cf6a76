// What the server can do. Without an answer the forms offer what every server can.

import { Strategy } from '../gen/treeagent/v1/common_pb';
import type { GetServerInfoResponse } from '../gen/treeagent/v1/server_service_pb';
import { server } from './api/client';
import { auth } from './auth.svelte';

let asked: Promise<GetServerInfoResponse | undefined> | undefined;
let askedWith = auth.version;

/** Asked once for a page and token; undefined when there is no answer, and then the next call asks again. */
export function serverInfo(): Promise<GetServerInfoResponse | undefined> {
  if (askedWith !== auth.version) asked = undefined;
  askedWith = auth.version;
  asked ??= server.getServerInfo({}).catch(() => (asked = undefined));
  return asked;
}

export interface StrategyChoice {
  value: Strategy;
  label: string;
  icon: string;
  hint: string;
}

const STRATEGIES: StrategyChoice[] = [
  { value: Strategy.TREE, label: 'Tree', icon: 'tree', hint: 'Plans, divides and combines' },
  { value: Strategy.HOMEWORK, label: 'Homework', icon: 'again', hint: 'Rounds until nothing is open' },
  { value: Strategy.SEARCH, label: 'Search', icon: 'search', hint: 'Topics, deeper where it pays' },
];

/** The strategies that the server accepts. */
export function strategies(info: GetServerInfoResponse | undefined): StrategyChoice[] {
  const accepted = info === undefined || info.strategies.length === 0 ? [Strategy.TREE] : info.strategies;
  return STRATEGIES.filter((strategy) => accepted.includes(strategy.value));
}

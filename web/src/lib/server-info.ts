// What the server can do. Without an answer the forms offer what every server can.

import { Strategy } from '../gen/treeagent/v1/common_pb';
import type { GetServerInfoResponse } from '../gen/treeagent/v1/server_service_pb';
import { server } from './api/client';

let asked: Promise<GetServerInfoResponse | undefined> | undefined;

/** Asked once for a page; undefined when there is no answer, and then the next call asks again. */
export function serverInfo(): Promise<GetServerInfoResponse | undefined> {
  asked ??= server.getServerInfo({}).catch(() => (asked = undefined));
  return asked;
}

export interface StrategyChoice {
  value: Strategy;
  label: string;
  hint: string;
}

const STRATEGIES: StrategyChoice[] = [
  { value: Strategy.TREE, label: 'Tree', hint: 'Plan, delegate, execute and aggregate' },
  {
    value: Strategy.HOMEWORK,
    label: 'Homework',
    hint: 'Work in iterations, each with tasks for branches, until the planner is satisfied',
  },
  {
    value: Strategy.SEARCH,
    label: 'Search',
    hint: 'Research every topic of the first level, then pick where to dig deeper',
  },
];

/** The strategies that the server accepts. */
export function strategies(info: GetServerInfoResponse | undefined): StrategyChoice[] {
  const accepted = info === undefined || info.strategies.length === 0 ? [Strategy.TREE] : info.strategies;
  return STRATEGIES.filter((strategy) => accepted.includes(strategy.value));
}

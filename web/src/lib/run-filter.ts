// Which runs the list shows. The URL carries it.

import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { RunStatus, Strategy } from '../gen/treeagent/v1/common_pb';
import type { ListRunsRequestSchema } from '../gen/treeagent/v1/run_service_pb';
import { labelTexts } from './labels';

export const STATUS_FILTERS = [
  { value: 'active', label: 'Active', statuses: [RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.PAUSED] },
  { value: 'completed', label: 'Completed', statuses: [RunStatus.COMPLETED] },
  { value: 'failed', label: 'Failed', statuses: [RunStatus.FAILED] },
  { value: 'cancelled', label: 'Cancelled', statuses: [RunStatus.CANCELLED] },
];

/** Parameters of the URL beside the status and the text of the search. */
export const FILTER_PARAMS = ['project', 'model', 'strategy', 'label', 'user', 'id', 'parent', 'from', 'to'] as const;
export type FilterParam = (typeof FILTER_PARAMS)[number];

/** In place of the id of a project: the context of all projects. */
export const GLOBAL_FILTER = 'global';

const STRATEGIES: Record<string, Strategy> = {
  tree: Strategy.TREE,
  homework: Strategy.HOMEWORK,
  search: Strategy.SEARCH,
};

/** The filters that ListRuns and WatchRuns have in common. */
export type RunFilter = Omit<
  MessageInitShape<typeof ListRunsRequestSchema>,
  '$typeName' | '$unknown' | 'pageSize' | 'pageToken'
>;

/** The filter that the URL's parameters stand for. Days are those of the browser's time zone; `to` is included. */
export function runFilter(param: (name: string) => string): RunFilter {
  const get = (name: string): string => param(name).trim();
  const [after, before] = [day(get('from'), 0), day(get('to'), 1)];
  const strategy = STRATEGIES[get('strategy')];
  return {
    statuses: STATUS_FILTERS.find((f) => f.value === get('status'))?.statuses ?? [],
    objectiveContains: get('q'),
    labels: labelTexts(get('label')),
    model: get('model'),
    userId: get('user'),
    idPart: get('id'),
    parentRunId: get('parent'),
    projectId: get('project') === GLOBAL_FILTER ? '' : get('project'),
    global: get('project') === GLOBAL_FILTER,
    strategies: strategy === undefined ? [] : [strategy],
    ...(after && { createdAfter: timestampFromDate(after) }),
    ...(before && { createdBefore: timestampFromDate(before) }),
  };
}

/** The beginning of a day such as `2026-11-23`, or of one that comes some days later. */
function day(text: string, later: number): Date | undefined {
  const [, year, month, date] = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text) ?? [];
  return year === undefined ? undefined : new Date(Number(year), Number(month) - 1, Number(date) + later);
}

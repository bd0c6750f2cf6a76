// The next run, as the form on the home page holds it. A reload of the tab keeps it.

import { Strategy } from '../gen/treeagent/v1/common_pb';
import type { ListModelsResponse } from '../gen/treeagent/v1/model_service_pb';
import type { EstimateRunResponse, Run } from '../gen/treeagent/v1/run_service_pb';
import type { GetServerInfoResponse } from '../gen/treeagent/v1/server_service_pb';
import { runs } from './api/client';
import { Attempt } from './attempt.svelte';
import { checkLimit, strategyLimits, textsOf, toBudgets, type LimitTexts } from './budgets';
import { GLOBAL, isGlobal, isWhole, noteRecent, toRequest, type Named } from './context-choice';
import { checkLabels, labelWords, toLabels } from './labels';
import { listModels, modelProblem } from './models';
import { checkName, checkObjective, notStarted } from './new-run';
import { RequestIds } from './request-id';
import { router } from './router.svelte';
import { toChoice } from './run-context';
import { defaultOptions, fromSearch, searchProblems, toSearch } from './search-options';
import { serverInfo, strategies } from './server-info';
import { load, save } from './storage';

const KEY = 'draft';
const AFTER_CHANGE_MS = 250;

const empty = () => ({
  objective: '',
  strategy: Strategy.TREE as Strategy,
  choice: GLOBAL,
  model: '',
  displayName: '',
  labels: '',
  budgets: {} as LimitTexts,
  readOnly: false,
  writes: false,
  verified: true,
  reviewed: false,
  keepsPrompts: false,
  search: defaultOptions(),
});

type Fields = ReturnType<typeof empty>;

class Draft {
  fields = $state<Fields>({ ...empty(), ...load<Fields>(KEY) });
  info = $state.raw<GetServerInfoResponse | undefined>();
  models = $state.raw<ListModelsResponse | undefined>();
  /** The most that the run can use; undefined while that is unknown. */
  estimate = $state.raw<EstimateRunResponse | undefined>();
  readonly #attempt = new Attempt();
  readonly #requestIds = new RequestIds();

  readonly busy = $derived(this.#attempt.busy);
  /** Why the last try to start it failed, and the field that the server named. */
  readonly problem = $derived(notStarted(this.#attempt.why));
  readonly wrongField = $derived(this.#attempt.why?.field ?? '');
  readonly offered = $derived(strategies(this.info));
  readonly isSearch = $derived(this.fields.strategy === Strategy.SEARCH);
  /** The run may write into projects although none is chosen. */
  readonly writes = $derived(this.fields.writes && !this.fields.readOnly && this.fields.choice.kind === 'global');
  readonly limits = $derived(strategyLimits(this.fields.strategy));
  readonly defaults = $derived(this.isSearch ? this.info?.defaultSearchBudgets : this.info?.defaultBudgets);
  readonly problems = $derived({
    objective: checkObjective(this.fields.objective),
    model: modelProblem(this.models, this.fields.model),
    name: checkName(this.fields.displayName),
    labels: checkLabels(this.fields.labels),
    budgets: this.limits.map((limit) =>
      checkLimit(limit, this.fields.budgets[limit.key], this.info?.limits?.maxBudgets),
    ),
    search: searchProblems(this.fields.search, this.info?.limits),
  });
  /** What determines how much the run can use is complete. */
  readonly #countable = $derived(
    isWhole(this.fields.choice) &&
      this.problems.budgets.every((p) => p === '') &&
      (!this.isSearch || Object.values(this.problems.search).every((p) => p === '')),
  );
  readonly valid = $derived(
    this.#countable && [this.problems.objective, this.problems.name, this.problems.labels].every((p) => p === ''),
  );
  readonly #size = $derived({
    strategy: this.fields.strategy,
    context: toRequest(this.fields.choice),
    budgets: toBudgets(this.limits, this.fields.budgets),
    search: this.isSearch && this.#countable ? toSearch(this.fields.search) : undefined,
    model: this.fields.model.trim(),
    // Without a word, the server verifies the answers of language models.
    verify: this.fields.verified ? undefined : false,
  });

  /** What the server said about a field, if that is why the run did not start. */
  said(field: string): string {
    return this.wrongField === field ? this.problem : '';
  }

  /** Asks what the server offers. */
  open(): void {
    void serverInfo().then((info) => (this.info = info));
    void listModels().then((models) => (this.models = models));
  }

  keep(): void {
    save(KEY, this.fields);
  }

  /** Asks for an estimate once the form rests. The last one stays until then. Returns what ends it. */
  count(): () => void {
    const abort = new AbortController();
    const size = this.#countable && this.problems.model === '' ? this.#size : undefined;
    const timer = setTimeout(() => {
      if (size === undefined) this.estimate = undefined;
      else
        runs.estimateRun(size, { signal: abort.signal }).then(
          (estimate) => (this.estimate = estimate),
          // Starting the run says what is wrong.
          () => !abort.signal.aborted && (this.estimate = undefined),
        );
    }, AFTER_CHANGE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }

  /** Starts the run. Returns its id, or nothing if it did not start. */
  async start(): Promise<string | undefined> {
    let runId: string | undefined;
    if (!this.valid) return runId;
    await this.#attempt.make(async () => {
      const { fields } = this;
      const request = {
        ...this.#size,
        objective: fields.objective.trim(),
        displayName: fields.displayName.trim(),
        labels: toLabels(fields.labels),
        readOnly: fields.readOnly,
        write: this.writes ? true : undefined,
        review: fields.reviewed ? {} : undefined,
        keepPrompts: fields.keepsPrompts ? true : undefined,
      };
      const { run } = await runs.createRun({ ...request, requestId: this.#requestIds.for(request) });
      noteRecent(fields.choice);
      // The next question is often about the same documents.
      this.fields = { ...empty(), choice: fields.choice };
      runId = run?.runId;
    });
    return runId;
  }

  /** Takes everything over from a run. */
  async fill(runId: string): Promise<void> {
    // Only its first event has the prompts and the schema of a search.
    const first = runs.listEvents({ runId, pageSize: 1 });
    const [{ run }, { events }, info] = await Promise.all([runs.getRun({ runId }), first, serverInfo()]);
    const body = events[0]?.body;
    const search = body?.case === 'runCreated' ? body.value.search : undefined;
    if (run) this.fields = await fieldsOf({ ...run, ...(search && { search }) }, info);
  }
}

async function fieldsOf(run: Run, info: GetServerInfoResponse | undefined): Promise<Fields> {
  const defaults = run.strategy === Strategy.SEARCH ? info?.defaultSearchBudgets : info?.defaultBudgets;
  return {
    objective: run.objective,
    strategy: run.strategy,
    choice: await toChoice(run.context),
    model: run.model,
    displayName: run.displayName,
    labels: labelWords(run.labels).join(', '),
    budgets: textsOf(strategyLimits(run.strategy), run.budgets, defaults),
    // Without a project a run is read-only unless it asks to write.
    readOnly: run.readOnly && !isGlobal(run.context),
    writes: !run.readOnly && isGlobal(run.context),
    // The server does not verify what rules answer, so such a run does not say what was chosen.
    verified: run.verify || run.model === 'offline',
    reviewed: run.review !== undefined,
    keepsPrompts: run.keepPrompts,
    search: fromSearch(run.search),
  };
}

export const draft = new Draft();

/** Goes home with a project as the context of the question. */
export function askProject(project: Named): void {
  draft.fields.choice = { kind: 'project', projects: [project] };
  router.go('/?new=1');
}

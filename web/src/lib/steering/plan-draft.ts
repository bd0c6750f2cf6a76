// A plan while a person edits it. Steps that have begun are locked: they keep their place and their content. Every
// change makes a new draft.

import { ModelProfile, ResultKind, Strategy } from '../../gen/treeagent/v1/common_pb';
import type { Plan, PlanStep, StepStatus } from '../projection/model';
import type { PlanInit } from './actions';
import { areWrong, textsOf, type LimitTexts } from '../budgets';
import { SUBTREE_LIMITS, toSubtreeBudget } from './budgets';

export interface DraftStep {
  /** Of this step in the dialog. */
  key: string;
  /** Empty for a new step. */
  stepId: string;
  title: string;
  reason: string;
  /** One criterion a line. */
  criteria: string;
  branchId: string;
  /** What it and everything below it may use, as it is typed. */
  budget: LimitTexts;
  /** Empty where its worker decides. */
  deliverable: NonNullable<PlanStep['deliverable']> | '';
  /** Empty for the model of its role. */
  profile: NonNullable<PlanStep['profile']> | '';
  status: StepStatus;
  locked: boolean;
  /** What cannot be edited here, and goes back as it came. */
  old: PlanStep | undefined;
}

/** What a step can return, in words. */
export const DELIVERABLES = {
  document: 'a document',
  json: 'data (JSON)',
  hybrid: 'a document and data (JSON)',
} as const;

export interface DraftBand {
  key: string;
  goal: string;
  parallelizable: boolean;
  /** It has begun, so its goal and order are settled; steps may still be added. */
  begun: boolean;
  /** All its steps have ended and another one has begun: nothing can be added. */
  over: boolean;
  steps: DraftStep[];
}

export interface Draft {
  summary: string;
  bands: DraftBand[];
}

/** Where a step stands. */
export interface Place {
  band: number;
  step: number;
}

let made = 0;
const newKey = (): string => `new-${++made}`;

/** A step of a plan, or a new one. */
function draftStep(key: string, old?: PlanStep): DraftStep {
  return {
    key,
    stepId: old?.stepId ?? '',
    title: old?.title ?? '',
    reason: old?.reason ?? '',
    criteria: old?.successCriteria.join('\n') ?? '',
    branchId: old?.branchId ?? '',
    budget: textsOf(SUBTREE_LIMITS, old?.budget),
    deliverable: old?.deliverable ?? '',
    profile: old?.profile ?? '',
    status: old?.status ?? 'pending',
    locked: old !== undefined && old.status !== 'pending',
    old,
  };
}

export function draftOf(plan: Plan): Draft {
  const begun = plan.bands.map((band) => band.steps.some((step) => step.status !== 'pending'));
  const current = Math.max(0, begun.lastIndexOf(true));
  return {
    summary: plan.summary,
    bands: plan.bands.map((band, b) => ({
      key: `band-${b}`,
      goal: band.goal,
      parallelizable: band.parallelizable,
      begun: begun[b]!,
      over: b < current,
      steps: band.steps.map((step) => draftStep(step.stepId, step)),
    })),
  };
}

const inBand = (draft: Draft, b: number, change: (band: DraftBand) => DraftBand): Draft => ({
  ...draft,
  bands: draft.bands.map((band, i) => (i === b ? change(band) : band)),
});

/** The first place in a band that a step may take: behind every step that has begun. */
const firstFree = (band: DraftBand): number => band.steps.findLastIndex((step) => step.locked) + 1;

/** Bands that have lost their last step go with it. */
const withoutEmpty = (draft: Draft): Draft => ({
  ...draft,
  bands: draft.bands.filter((band) => band.steps.length > 0),
});

export function changeStep(draft: Draft, { band, step }: Place, change: Partial<DraftStep>): Draft {
  return inBand(draft, band, (b) => ({
    ...b,
    steps: b.steps.map((s, i) => (i === step && !s.locked ? { ...s, ...change } : s)),
  }));
}

export function changeBand(
  draft: Draft,
  band: number,
  change: Partial<Pick<DraftBand, 'goal' | 'parallelizable'>>,
): Draft {
  return inBand(draft, band, (b) => (b.begun ? b : { ...b, ...change }));
}

export function addStep(draft: Draft, band: number): Draft {
  return inBand(draft, band, (b) => (b.over ? b : { ...b, steps: [...b.steps, draftStep(newKey())] }));
}

/** Adds a band at the end, with one empty step. */
export function addBand(draft: Draft): Draft {
  const band: DraftBand = { key: newKey(), goal: '', parallelizable: false, begun: false, over: false, steps: [] };
  return addStep({ ...draft, bands: [...draft.bands, band] }, draft.bands.length);
}

export function removeStep(draft: Draft, { band, step }: Place): Draft {
  if (draft.bands[band]?.steps[step]?.locked !== false) return draft;
  return withoutEmpty(inBand(draft, band, (b) => ({ ...b, steps: b.steps.filter((_, i) => i !== step) })));
}

export function removeBand(draft: Draft, band: number): Draft {
  return draft.bands[band]?.begun === false ? { ...draft, bands: draft.bands.filter((_, i) => i !== band) } : draft;
}

/** Exchanges a band with the one before or after it, if neither has begun. */
export function moveBand(draft: Draft, band: number, by: 1 | -1): Draft {
  const [here, there] = [draft.bands[band], draft.bands[band + by]];
  if (here === undefined || there === undefined || here.begun || there.begun) return draft;
  return { ...draft, bands: draft.bands.with(band, there).with(band + by, here) };
}

/** Moves a step before the one that stands at `to`, or to the end of that band. Undefined if it may not. */
export function moveStep(draft: Draft, from: Place, to: Place): Draft | undefined {
  const step = draft.bands[from.band]?.steps[from.step];
  const target = draft.bands[to.band];
  if (step === undefined || step.locked || target === undefined || target.over) return undefined;
  // Taken out first, the steps behind it move up.
  const gone = from.band === to.band && from.step < to.step ? 1 : 0;
  const at = Math.max(to.step - gone, firstFree(target));
  if (from.band === to.band && at === from.step) return undefined;
  const taken = inBand(draft, from.band, (b) => ({ ...b, steps: b.steps.filter((_, i) => i !== from.step) }));
  return withoutEmpty(inBand(taken, to.band, (b) => ({ ...b, steps: b.steps.toSpliced(at, 0, step) })));
}

/** Where a step goes that is moved up or down by one, across bands too. Undefined if it cannot. */
export function nextPlace(draft: Draft, { band, step }: Place, by: 1 | -1): Place | undefined {
  const here = draft.bands[band]!;
  if (by === -1 && step > firstFree(here)) return { band, step: step - 1 };
  if (by === 1 && step < here.steps.length - 1) return { band, step: step + 2 };
  const there = draft.bands[band + by];
  if (there === undefined || there.over) return undefined;
  return by === -1 ? { band: band - 1, step: there.steps.length } : { band: band + 1, step: firstFree(there) };
}

/** Where a step stands, by its key. */
export function placeOf(draft: Draft, key: string): Place | undefined {
  for (const [band, { steps }] of draft.bands.entries()) {
    const step = steps.findIndex((s) => s.key === key);
    if (step >= 0) return { band, step };
  }
  return undefined;
}

/** What keeps the draft from being sent; empty when nothing does. */
export function draftProblem(draft: Draft): string {
  if (draft.bands.length === 0) return 'A plan needs at least one step.';
  const steps = draft.bands.flatMap((band) => band.steps);
  if (steps.some((step) => step.title.trim() === '')) return 'Every step needs a title.';
  if (steps.some((step) => areWrong(SUBTREE_LIMITS, step.budget))) return 'A budget of a step is not a number.';
  return draft.summary.trim() === '' ? 'The plan needs a summary.' : '';
}

const lines = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');

/** A step as it goes to the server. One that was not changed goes back exactly as it came. */
function stepOf(step: DraftStep): NonNullable<NonNullable<PlanInit['bands']>[number]['steps']>[number] {
  const { old } = step;
  const kept = old !== undefined && step.criteria === old.successCriteria.join('\n');
  return {
    stepId: step.stepId,
    title: step.title === old?.title ? old.title : step.title.trim(),
    reason: step.reason === old?.reason ? old.reason : step.reason.trim(),
    successCriteria: kept ? old.successCriteria : lines(step.criteria),
    strategy: old?.strategy === 'search' ? Strategy.SEARCH : undefined,
    search: old?.search,
    budget: toSubtreeBudget(step.budget),
    // Undefined for an empty choice.
    deliverable: ResultKind[step.deliverable.toUpperCase() as keyof typeof ResultKind],
    profile: ModelProfile[step.profile.toUpperCase() as keyof typeof ModelProfile],
    branchId: step.branchId.trim() || undefined,
  };
}

export function toPlan(draft: Draft): PlanInit {
  return {
    summary: draft.summary.trim(),
    bands: draft.bands.map((band) => ({
      goal: band.goal.trim(),
      parallelizable: band.parallelizable,
      steps: band.steps.map(stepOf),
    })),
  };
}

/** True if the drafts ask for the same plan. */
export const isSameDraft = (a: Draft, b: Draft): boolean => JSON.stringify(toPlan(a)) === JSON.stringify(toPlan(b));

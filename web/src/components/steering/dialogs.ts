// The dialogs of commands, by kind.

export { default as budget } from './BudgetDialog.svelte';
export { default as fork } from './ForkDialog.svelte';
export { default as guide } from './GuideDialog.svelte';
export { default as pause } from './PauseDialog.svelte';
export { default as plan } from './PlanDialog.svelte';
export { default as retry } from './RetryDialog.svelte';
export { default as stop } from './StopDialog.svelte';

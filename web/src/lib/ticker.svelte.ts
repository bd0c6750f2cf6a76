// The time, updated once a second for relative times on the screen. It runs only while something reads it.

import { createSubscriber } from 'svelte/reactivity';

const subscribe = createSubscriber((update) => {
  const timer = setInterval(update, 1000);
  return () => clearInterval(timer);
});

export const ticker = {
  get now(): number {
    subscribe();
    return Date.now();
  },
};

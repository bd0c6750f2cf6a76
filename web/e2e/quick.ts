/** The tests that `make test` runs; they visit every page. `make test-all` runs the others too. */
export const QUICK = { tags: ['quick'] };

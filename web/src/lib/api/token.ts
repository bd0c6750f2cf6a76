// The access token of this tab.

const TOKEN_KEY = 'tree-agent.token';

/** Empty unless the user has signed in. It is forgotten when the tab is closed. */
export const token = {
  get: (): string => sessionStorage.getItem(TOKEN_KEY) ?? '',
  set: (value: string): void => sessionStorage.setItem(TOKEN_KEY, value),
};

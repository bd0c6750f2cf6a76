// Where a tab keeps its access token.

const TOKEN_KEY = 'tree-agent.token';

/** The bearer token of this tab; gateways that ask for none never see it used. */
export const token = {
  get: (): string => sessionStorage.getItem(TOKEN_KEY) ?? '',
  set: (value: string): void => sessionStorage.setItem(TOKEN_KEY, value),
};

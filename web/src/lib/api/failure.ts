// Errors of calls, in words for the user.

import { Code, ConnectError } from '@connectrpc/connect';

export type FailureKind = 'missing' | 'denied' | 'signed-out' | 'offline' | 'invalid' | 'other';

export interface Failure {
  kind: FailureKind;
  /** What happened, in words for the user. */
  title: string;
  /** What the server said. */
  detail: string;
  /** The request field that is wrong, when the server named one. */
  field?: string;
}

const TITLES: Record<FailureKind, string> = {
  missing: 'Not found',
  denied: 'You do not have access',
  'signed-out': 'You need to sign in',
  offline: 'The gateway does not answer',
  invalid: 'The gateway did not accept this',
  other: 'Something went wrong',
};

const KINDS: Partial<Record<Code, FailureKind>> = {
  [Code.NotFound]: 'missing',
  [Code.PermissionDenied]: 'denied',
  [Code.Unauthenticated]: 'signed-out',
  [Code.Unavailable]: 'offline',
  [Code.DeadlineExceeded]: 'offline',
  [Code.InvalidArgument]: 'invalid',
  [Code.OutOfRange]: 'invalid',
  [Code.AlreadyExists]: 'invalid',
  [Code.FailedPrecondition]: 'invalid',
  [Code.Unimplemented]: 'invalid',
};

/** What happened, with what the server said. */
export const failureWords = ({ title, detail }: Failure): string => (detail === '' ? title : `${title}: ${detail}`);

export function failure(error: unknown): Failure {
  const e = ConnectError.from(error);
  // When no answer arrives, or only part of one, the cause is an error of the browser and there is no code of the
  // server.
  const lost = e.code === Code.Unknown && e.cause !== undefined;
  const kind = lost ? 'offline' : (KINDS[e.code] ?? 'other');
  const field = /^([a-z_]+(?:\[\d+\])?(?:\.[A-Za-z_]+(?:\[\d+\])?)*)(?![\w[])/.exec(e.rawMessage)?.[1];
  return { kind, title: TITLES[kind], detail: e.rawMessage, ...(kind === 'invalid' && field ? { field } : {}) };
}

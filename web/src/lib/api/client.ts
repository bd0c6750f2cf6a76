// The gateway's services over gRPC-web, on the origin that served the page.

import { Code, ConnectError, createClient, type Interceptor } from '@connectrpc/connect';
import { createGrpcWebTransport } from '@connectrpc/connect-web';
import { DocumentService } from '../../gen/treeagent/v1/document_service_pb';
import { ProjectService } from '../../gen/treeagent/v1/project_service_pb';
import { RunService } from '../../gen/treeagent/v1/run_service_pb';
import { token } from './token';

const authorise: Interceptor = (next) => (request) => {
  const value = token.get();
  if (value !== '') request.header.set('authorization', `Bearer ${value}`);
  return next(request);
};

const transport = createGrpcWebTransport({ baseUrl: location.origin, interceptors: [authorise] });

export const runs = createClient(RunService, transport);
export const documents = createClient(DocumentService, transport);
export const projects = createClient(ProjectService, transport);

export type FailureKind = 'missing' | 'denied' | 'signed-out' | 'offline' | 'invalid' | 'other';

export interface Failure {
  kind: FailureKind;
  /** What happened, for a person. */
  title: string;
  /** What the server said. */
  detail: string;
  /** The request field that is wrong, when the server named one. */
  field?: string;
}

const TITLES: Record<FailureKind, string> = {
  missing: 'Not found',
  denied: 'You may not see this',
  'signed-out': 'A token is needed that is good now',
  offline: 'The gateway does not answer',
  invalid: 'The gateway did not accept this',
  other: 'Something went wrong',
};

function kindOf(code: Code): FailureKind {
  switch (code) {
    case Code.NotFound:
      return 'missing';
    case Code.PermissionDenied:
      return 'denied';
    case Code.Unauthenticated:
      return 'signed-out';
    case Code.Unavailable:
    case Code.DeadlineExceeded:
      return 'offline';
    case Code.InvalidArgument:
    case Code.OutOfRange:
    case Code.AlreadyExists:
    case Code.FailedPrecondition:
    case Code.Unimplemented:
      return 'invalid';
    default:
      return 'other';
  }
}

export function failure(error: unknown): Failure {
  const e = ConnectError.from(error);
  // A fetch that reaches nothing, or an answer that is cut short, has no code of the server's but a cause of the browser's.
  const lost = e.code === Code.Unknown && e.cause !== undefined;
  const kind = lost ? 'offline' : kindOf(e.code);
  const field = /^([a-z_]+(?:\.[a-z_]+)*)\b/.exec(e.rawMessage)?.[1];
  return { kind, title: TITLES[kind], detail: e.rawMessage, ...(kind === 'invalid' && field ? { field } : {}) };
}

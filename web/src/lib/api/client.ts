// Clients of the gateway's services: gRPC-web to the origin that served the page.

import { createClient, type Interceptor } from '@connectrpc/connect';
import { createGrpcWebTransport } from '@connectrpc/connect-web';
import { DocumentService } from '../../gen/treeagent/v1/document_service_pb';
import { ModelService } from '../../gen/treeagent/v1/model_service_pb';
import { ProjectService } from '../../gen/treeagent/v1/project_service_pb';
import { RunService } from '../../gen/treeagent/v1/run_service_pb';
import { ServerService } from '../../gen/treeagent/v1/server_service_pb';
import { token } from './token';

export { failure, failureWords, type Failure, type FailureKind } from './failure';

const authorise: Interceptor = (next) => (request) => {
  const value = token.get();
  if (value !== '') request.header.set('authorization', `Bearer ${value}`);
  return next(request);
};

let leaving = false;
// Unit tests have no window.
globalThis.addEventListener?.('pagehide', () => (leaving = true), { capture: true });
globalThis.addEventListener?.('pageshow', () => (leaving = false));

const transport = createGrpcWebTransport({
  baseUrl: location.origin,
  interceptors: [authorise],
  // What is sent while the page goes away must outlive it.
  fetch: (input, init) => fetch(input, leaving ? { ...init, keepalive: true } : init),
});

export const runs = createClient(RunService, transport);
export const documents = createClient(DocumentService, transport);
export const projects = createClient(ProjectService, transport);
export const models = createClient(ModelService, transport);
export const server = createClient(ServerService, transport);

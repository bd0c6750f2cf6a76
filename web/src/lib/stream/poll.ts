// Follows a run by its stream; or, where a proxy holds streams back, by asking for new events again and again.

import { create } from '@bufbuild/protobuf';
import { RunStatus } from '../../gen/treeagent/v1/common_pb';
import type { Event } from '../../gen/treeagent/v1/events_pb';
import { HeartbeatSchema, type WatchRunResponse } from '../../gen/treeagent/v1/run_service_pb';

/** What a follower is told: a message of the stream, or that there is none and it asks instead. */
export interface Message {
  message: WatchRunResponse['message'] | { case: 'polling' };
}

/** A stream says at once how far it has come. One that says nothing for this long is held back. */
const HELD_BACK_MS = 8_000;
const EVERY_MS = 2_000;
const PAGE = 1000;

export interface Calls {
  stream: (afterSeq: bigint, signal: AbortSignal) => AsyncIterable<WatchRunResponse>;
  list: (afterSeq: bigint, pageSize: number, signal: AbortSignal) => Promise<{ events: Event[]; headSeq: bigint }>;
}

const pause = (ms: number): Promise<'late'> => new Promise((resolve) => setTimeout(() => resolve('late'), ms));

const ends = ({ body }: Event): boolean =>
  body.case === 'runStatus' && [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED].includes(body.value.status);

export async function* followRun(calls: Calls, afterSeq: bigint, signal: AbortSignal): AsyncGenerator<Message> {
  const streaming = new AbortController();
  const stop = (): void => streaming.abort();
  signal.addEventListener('abort', stop, { once: true });
  const stream = calls.stream(afterSeq, streaming.signal)[Symbol.asyncIterator]();
  const first = stream.next();
  const answer = await Promise.race([first, pause(HELD_BACK_MS)]);
  if (answer !== 'late') {
    for (let next = answer; next.done !== true; next = await stream.next()) yield next.value;
    return;
  }
  first.catch(() => undefined);
  stop();
  yield { message: { case: 'polling' } };
  for (let seq = afterSeq; !signal.aborted;) {
    const { events, headSeq } = await calls.list(seq, PAGE, signal);
    for (const event of events) {
      seq = event.seq;
      yield { message: { case: 'event', value: event } };
      if (ends(event)) return;
    }
    yield { message: { case: 'heartbeat', value: create(HeartbeatSchema, { headSeq, seq }) } };
    if (events.length < PAGE) await pause(EVERY_MS);
  }
}

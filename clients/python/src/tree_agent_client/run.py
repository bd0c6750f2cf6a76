"""A run."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence

from . import errors
from .http import Http
from .values import Bill, Citation, Event, Json, Result, State

#: Seconds that one call waits. Proxies close what is silent for a minute.
WAIT = 45


class Run:
    """A run, known by its ``id``. It goes on whether or not anybody looks."""

    def __init__(self, http: Http, run_id: str) -> None:
        self._http = http
        self.id = run_id

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    @property
    def _path(self) -> str:
        return f"/v1/runs/{self.id}"

    def state(self) -> State:
        """How far it is now."""
        return State.of(self._http.call("GET", self._path)["run"])

    def events(self, after_seq: int = 0, *, types: Sequence[str] = (), node_id: str = "") -> Iterator[Event]:
        """Its events, each once and in order, until it has ended. A connection that breaks is made again."""
        query = {"types": list(types), "nodeId": node_id}
        for name, _, data in self._http.events(f"{self._path}/events", query, str(after_seq)):
            if not name:
                yield Event.of(data)

    def wait(self, timeout: float | None = None, *, for_person: bool = False) -> Run:
        """Waits until it has ended; with ``for_person``, also until somebody must go on with it.

        Raises ``TimeoutError`` after ``timeout`` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        seen = 0
        while True:
            left = WAIT if until is None else min(WAIT, max(0.0, until - time.monotonic()))
            asked = {"afterSeq": seen or None, "timeout": f"{left:.3f}s"}
            answer = self._http.call("GET", f"{self._path}:wait", query=asked, timeout=WAIT + 30.0)
            needs_person = answer.get("reason") == "WAIT_REASON_NEEDS_PERSON"
            state = State.of(answer["run"], needs_person)
            if state.ended or (needs_person and for_person):
                return self
            # Who knows of a pause waits for something else.
            seen = state.head_seq if needs_person else 0
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"run {self.id} is {state.status} after {timeout} s")

    def result(self) -> Result:
        """What it returned; an error if it has not ended."""
        result = Result.of(self._http.call("GET", f"{self._path}/result"))
        if result.status in ("queued", "running", "paused"):
            raise errors.Conflict(f"run {self.id} is {result.status}; wait() for it", code="failed_precondition")
        return result

    def citations(self, *, all_nodes: bool = False) -> list[Citation]:
        """The statements of its answer with their quotes; with ``all_nodes``, those of every part."""
        query: Json = {"nodeId": None if all_nodes else self.state().raw["rootNodeId"], "pageSize": 1000}
        found: list[Citation] = []
        while True:
            page = self._http.call("GET", f"{self._path}/citations", query=query)
            found += [Citation.of(claim) for claim in page.get("claims", [])]
            query["pageToken"] = page.get("nextPageToken", "")
            if not query["pageToken"]:
                return found

    def pause(self, node_id: str = "", *, now: bool = False) -> None:
        """Nothing new begins from here on, or from this node on; with ``now``, calls in flight are stopped."""
        self._steer("pause", nodeId=node_id, now=now)

    def resume(self, node_id: str = "") -> None:
        """Ends a pause, or a review."""
        self._steer("resume", nodeId=node_id)

    def guide(self, text: str, node_id: str = "", *, restart: bool = False) -> None:
        """Tells the next calls something: of a node, or of the whole run."""
        whole = not node_id
        node_id = node_id or self.state().raw["rootNodeId"]
        self._steer("guide", nodeId=node_id, text=text, subtree=whole, restart=restart)

    def stop(self, node_id: str = "", *, discard: bool = False) -> None:
        """Nothing new begins; what there is becomes the answer."""
        node_id = node_id or self.state().raw["rootNodeId"]
        self._steer("stop", nodeId=node_id, discard=discard)

    def cancel(self, reason: str = "") -> None:
        """Ends it without an answer."""
        self._http.call("POST", f"{self._path}:cancel", body={"reason": reason})

    def delete(self) -> None:
        """Hides it, with its documents. It must have ended."""
        self._http.call("DELETE", self._path)

    def fork_bill(self, at_seq: int | None = None, edits: Sequence[Json] = ()) -> Bill:
        """What a fork would cost. Nothing is written."""
        answer = self._http.call("POST", f"{self._path}:fork", body=_fork(at_seq, edits, validateOnly=True))
        return Bill.of(answer.get("preview", {}))

    def fork(self, at_seq: int | None = None, edits: Sequence[Json] = (), *, name: str = "") -> Run:
        """A new run that shares this one's log up to an event, with ``edits`` (``ForkEdit`` as JSON)."""
        body = _fork(at_seq, edits, displayName=name, requestId=uuid.uuid4().hex)
        return Run(self._http, self._http.call("POST", f"{self._path}:fork", body=body)["forkRunId"])

    def _steer(self, verb: str, **fields: object) -> None:
        # With an id of its own, so that the same command can be sent again.
        body = {"requestId": uuid.uuid4().hex, **{name: value for name, value in fields.items() if value}}
        self._http.call("POST", f"{self._path}:{verb}", body=body)


def _fork(at_seq: int | None, edits: Sequence[Json], **more: object) -> Json:
    body: Json = {"edits": list(edits), **{name: value for name, value in more.items() if value}}
    if at_seq is not None:
        body["atSeq"] = str(at_seq)
    return body

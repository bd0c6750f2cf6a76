"""A server."""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from . import errors
from .http import Http, Token, files
from .run import Run
from .values import Imported, Json, plain

#: The server of `tree-agent dev`.
USUAL = "http://127.0.0.1:7400"


class Client:
    """A server of tree-agent.

    ``server`` is its address; that in ``TREE_AGENT_SERVER``, or that of ``tree-agent dev``, if it is left out.
    ``token`` is a token, a file with one, or a function that returns one; it is asked for at each call.
    ``patience`` is for how many seconds a server that is away is tried again.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: Token = None,
        patience: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        server = server or os.environ.get("TREE_AGENT_SERVER") or USUAL
        self._http = Http(server, token or os.environ.get("TREE_AGENT_TOKEN"), patience, transport)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def run(
        self,
        objective: str,
        *,
        project: str | Sequence[str] | None = None,
        strategy: str = "tree",
        model: str = "",
        max_cost_usd: float | None = None,
        max_minutes: float | None = None,
        labels: Mapping[str, str] | None = None,
        review: bool = False,
        request_id: str | None = None,
        **more: Any,
    ) -> Run:
        """Starts a run. ``project`` is the name or the id of one, or several; without it the run reads all.

        The call can be repeated, because it has a ``request_id``, so it starts one run. ``more`` are other fields of
        ``CreateRunRequest`` in their JSON names.
        """
        budgets: Json = dict(more.pop("budgets", {}))
        if max_cost_usd is not None:
            budgets["maxCostMicros"] = str(round(max_cost_usd * 1_000_000))
        if max_minutes is not None:
            budgets["maxWallClockMs"] = str(round(max_minutes * 60_000))
        body: Json = {
            "objective": objective,
            "strategy": f"STRATEGY_{strategy.upper()}",
            "model": model,
            "requestId": request_id or uuid.uuid4().hex,
            **more,
        }
        if project:
            body["context"] = {"projectIds": [project] if isinstance(project, str) else list(project)}
        if budgets:
            body["budgets"] = budgets
        if labels:
            body["labels"] = dict(labels)
        if review:
            body["review"] = {}
        return Run(self._http, self._http.call("POST", "/v1/runs", body=body)["run"]["runId"])

    def get(self, run_id: str) -> Run:
        """A run that exists."""
        run = self._http.call("GET", f"/v1/runs/{quote(run_id, safe='')}")["run"]
        return Run(self._http, run["runId"])

    def runs(self, **filters: Any) -> Iterator[Run]:
        """Runs, the newest first. ``filters`` are those of ``ListRunsRequest``, such as ``projectId="notes"``."""
        for page in self._pages("/v1/runs", filters):
            for run in page.get("runs", []):
                yield Run(self._http, run["runId"])

    def projects(self) -> Iterator[Json]:
        """Projects, by name."""
        for page in self._pages("/v1/projects", {}):
            yield from page.get("projects", [])

    def search(self, query: str, *, project: str | Sequence[str] | None = None, limit: int = 10) -> list[Json]:
        """Passages of documents, the best first."""
        projects = [project] if isinstance(project, str) else list(project or [])
        asked = {"query": query, "context.projectIds": projects, "limit": limit}
        return list(self._http.call("GET", "/v1/documents:search", query=asked).get("hits", []))

    def import_folder(self, folder: str | os.PathLike[str], project: str) -> Iterator[Imported]:
        """Imports the files of a folder into a project, which is made if there is none. Says what became of each."""
        found = list(files(folder))
        try:
            project_id = self._http.call("GET", f"/v1/projects/{quote(project, safe='')}")["project"]["projectId"]
        except errors.NotFound:
            body = {"name": project, "requestId": uuid.uuid4().hex}
            project_id = self._http.call("POST", "/v1/projects", body=body)["project"]["projectId"]
        for path, file in found:
            content = base64.b64encode(file.read_bytes()).decode()
            body = {"projectId": project_id, "path": path, "content": content}
            try:
                answer = self._http.call("POST", "/v1/documents:import", body=body, timeout=300.0)
            except errors.LimitReached as error:
                if error.retry_after is not None:
                    raise
                # This file is too large, and others are not.
                yield Imported(path, "skipped", str(error))
                continue
            yield Imported(path, plain(answer.get("outcome"), "IMPORT_OUTCOME_"), answer.get("reason", ""))

    def _pages(self, path: str, query: Json) -> Iterator[Json]:
        query = dict(query)
        while True:
            page = self._http.call("GET", path, query=query)
            yield page
            query["pageToken"] = page.get("nextPageToken", "")
            if not query["pageToken"]:
                return

"""Requests, retries and streams."""

from __future__ import annotations

import json
import os
import pathlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from . import errors
from .values import Json

#: Seconds between two attempts, at the most.
LONGEST_PAUSE = 2.0
#: The server says something on a stream every 10 s. After so many seconds of silence it is gone.
SILENCE = 30.0

Token = str | Callable[[], str] | pathlib.Path | None


class Http:
    """Calls of one server. What is safe to repeat is repeated for ``patience`` seconds."""

    def __init__(self, server: str, token: Token, patience: float, transport: httpx.BaseTransport | None) -> None:
        self.patience = patience
        self._token = token
        timeout = httpx.Timeout(30.0, read=60.0)
        self._client = httpx.Client(base_url=server.rstrip("/"), timeout=timeout, transport=transport)

    def close(self) -> None:
        self._client.close()

    def headers(self) -> dict[str, str]:
        token = self._token() if callable(self._token) else self._token
        if isinstance(token, pathlib.Path):
            token = token.read_text(encoding="utf-8").strip()
        return {"authorization": f"Bearer {token}"} if token else {}

    def call(
        self,
        verb: str,
        path: str,
        *,
        query: Json | None = None,
        body: Json | None = None,
        repeat: bool = True,
        timeout: float | None = None,
    ) -> Json:
        """The answer of one call. With ``repeat`` it is made again if the server is away for a while."""
        pause = Pause(self.patience)
        while True:
            try:
                response = self._client.request(
                    verb,
                    path,
                    params=flat(query or {}),
                    json=body,
                    headers=self.headers(),
                    timeout=httpx.USE_CLIENT_DEFAULT if timeout is None else timeout,
                )
                if response.is_success:
                    answer = response.json()
                    return answer if isinstance(answer, dict) else {}
                error = error_of(response)
            except httpx.InvalidURL as cause:
                raise errors.InvalidArgument(str(cause), code="invalid_argument", field="server") from cause
            except httpx.TransportError as cause:
                error = errors.Disconnected(f"{self._client.base_url}: {cause}", code="unavailable")
                error.__cause__ = cause
            if not (repeat and isinstance(error, errors.Disconnected) and pause.wait(error.retry_after)):
                raise error

    def events(self, path: str, query: Json, last: str | None) -> Iterator[tuple[str, str, Any]]:
        """The name, the id and the data of what a stream sends, until it ends. It is opened again where it broke."""
        pause = Pause(self.patience)
        while True:
            headers = {**self.headers(), "accept": "text/event-stream"}
            if last is not None:
                headers["last-event-id"] = last
            try:
                timeout = httpx.Timeout(30.0, read=SILENCE)
                request = self._client.stream("GET", path, params=flat(query), headers=headers, timeout=timeout)
                with request as response:
                    if not response.is_success:
                        response.read()
                        raise error_of(response)
                    for name, at, data in sent(response.iter_lines()):
                        pause = Pause(self.patience)
                        last = at or last
                        if name == "end":
                            return
                        if name == "error":
                            raise errors.from_json(data)
                        yield name, at, data
                # It ended without saying so, as after `resume_hint`.
                error: errors.Error = errors.Disconnected("the stream broke", code="unavailable")
            except errors.Disconnected as cause:
                error = cause
            except httpx.TransportError as cause:
                error = errors.Disconnected(f"{self._client.base_url}: {cause}", code="unavailable")
                error.__cause__ = cause
            if not pause.wait(error.retry_after):
                raise error


class Pause:
    """Pauses between attempts, longer and longer, until the patience is used up."""

    def __init__(self, patience: float) -> None:
        self._until = time.monotonic() + patience
        self._next = 0.05

    def wait(self, at_least: float | None) -> bool:
        """False if there is no time for another attempt."""
        pause = max(self._next * random.uniform(0.5, 1.0), at_least or 0.0)
        self._next = min(self._next * 2, LONGEST_PAUSE)
        if time.monotonic() + pause > self._until:
            return False
        time.sleep(pause)
        return True


def sent(lines: Iterator[str]) -> Iterator[tuple[str, str, Any]]:
    """The events in the lines of a stream. One that is not whole is none."""
    name = at = data = ""
    for line in lines:
        if not line:
            if data:
                yield name, at, json.loads(data)
            name = at = data = ""
        key, _, value = line.partition(": ")
        if key == "event":
            name = value
        elif key == "id":
            at = value
        elif key == "data":
            data += value


def error_of(response: httpx.Response) -> errors.Error:
    """The error of an answer that is none."""
    try:
        error = response.json()
    except ValueError:
        # A proxy, say.
        code = "unavailable" if response.status_code in (502, 503, 504) else "unknown"
        error = {"code": code, "message": f"status {response.status_code}: {response.text[:200]}"}
    return errors.from_json(error, response.headers.get("retry-after"))


def flat(query: Json) -> httpx.QueryParams:
    """The parameters of a query. What is none is left out."""
    pairs: list[tuple[str, str | int | float | bool | None]] = []
    for name, value in query.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is not None and one != "":
                pairs.append((name, str(one).lower() if isinstance(one, bool) else str(one)))
    return httpx.QueryParams(tuple(pairs))


def files(folder: str | os.PathLike[str]) -> Iterator[tuple[str, pathlib.Path]]:
    """The files of a folder by their paths within it, without what is hidden."""
    root = pathlib.Path(folder)
    if not root.is_dir():
        raise errors.InvalidArgument(f"{root} is no folder", code="invalid_argument", field="folder")
    for file in sorted(root.rglob("*")):
        inside = file.relative_to(root)
        if file.is_file() and not any(part.startswith(".") for part in inside.parts):
            yield inside.as_posix(), file

"""What can go wrong, as classes."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """A call failed."""

    #: The code of the API, such as ``not_found``.
    code: str
    #: The field of the request that the error is about, if it is about one.
    field: str | None
    #: The reason of the API in capital letters, such as ``PROJECT_IN_USE``.
    reason: str | None
    #: Seconds after which the call may succeed, if the server says so.
    retry_after: float | None

    def __init__(
        self,
        message: str,
        *,
        code: str = "unknown",
        field: str | None = None,
        reason: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.field, self.reason, self.retry_after = code, field, reason, retry_after


class InvalidArgument(Error):
    """The request cannot be carried out as it is; ``field`` names what is wrong."""


class NotFound(Error):
    """There is no such thing, or the caller may not read it."""


class Conflict(Error):
    """It exists already, is in use, or is not in a state for this."""


class NotAllowed(Error):
    """The caller may read it, but not do this."""


class Unauthenticated(Error):
    """The token is missing, wrong, or has expired."""


class LimitReached(Error):
    """A limit of the user, or of a request, is reached; the message names the setting."""


class Disconnected(Error):
    """The server cannot be reached, or was lost for longer than the client's patience."""


CLASSES: dict[str, type[Error]] = {
    "invalid_argument": InvalidArgument,
    "out_of_range": InvalidArgument,
    "not_found": NotFound,
    "already_exists": Conflict,
    "failed_precondition": Conflict,
    "aborted": Conflict,
    "permission_denied": NotAllowed,
    "unauthenticated": Unauthenticated,
    "resource_exhausted": LimitReached,
    "unavailable": Disconnected,
}


def from_json(error: Any, retry_after: str | None = None) -> Error:
    """The error that the server has written as JSON."""
    if not isinstance(error, dict):
        error = {"message": str(error)}
    field = reason = None
    for detail in error.get("details", []):
        debug = detail.get("debug") or {}
        reason = debug.get("reason", reason)
        for violation in debug.get("fieldViolations", []):
            field = field or violation.get("field")
    code = str(error.get("code", "unknown"))
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    kind = CLASSES.get(code, Error)
    return kind(str(error.get("message", code)), code=code, field=field, reason=reason, retry_after=seconds)

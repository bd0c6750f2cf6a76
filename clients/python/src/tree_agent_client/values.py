"""What the server answers, as values. ``raw`` is the JSON of each, with the fields that have no attribute here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

#: Statuses from which a run goes nowhere.
ENDED = frozenset({"completed", "failed", "cancelled"})


def plain(name: Any, prefix: str) -> str:
    """The name of an enum value in small letters, without the prefix of its enum."""
    return str(name or "").removeprefix(prefix).lower()


def usd(micros: Any) -> float:
    """Millionths of a US dollar as dollars."""
    return int(micros or 0) / 1_000_000


@dataclass(frozen=True)
class Event:
    """An event of a run's log, as docs/events.md describes it."""

    seq: int
    type: str
    node_id: str
    timestamp: str
    payload: Json
    raw: Json = field(repr=False)

    @classmethod
    def of(cls, raw: Json) -> Event:
        return cls(raw["seq"], raw["type"], raw["nodeId"], raw["timestamp"], raw["payload"], raw)


@dataclass(frozen=True)
class State:
    """How far a run is."""

    status: str
    #: It ended with less than was asked for.
    partial: bool
    #: Why it failed, or ended as partial.
    error: str | None
    #: The last event of its log.
    head_seq: int
    steps: int
    steps_ended: int
    cost_usd: float
    raw: Json = field(repr=False)
    #: It is paused until a person goes on with it.
    needs_person: bool = False

    @property
    def ended(self) -> bool:
        """It goes nowhere from here."""
        return self.status in ENDED

    @classmethod
    def of(cls, run: Json, needs_person: bool = False) -> State:
        return cls(
            status=plain(run.get("status"), "RUN_STATUS_"),
            partial=run.get("partial", False),
            error=run.get("error"),
            head_seq=int(run.get("headSeq", 0)),
            steps=int(run.get("nodeCount", 0)),
            steps_ended=int(run.get("endedNodeCount", 0)),
            cost_usd=usd(run.get("usage", {}).get("costMicros")),
            raw=run,
            needs_person=needs_person,
        )


@dataclass(frozen=True)
class Result:
    """What a run returned."""

    status: str
    partial: bool
    error: str | None
    title: str
    #: The answer, in Markdown.
    text: str
    summary: str
    document_id: str | None
    #: The result as data, of a run that returned JSON.
    data: Json | None
    #: How many statements are supported, contradicted and so on.
    statements: dict[str, int]
    cost_usd: float
    raw: Json = field(repr=False)

    @classmethod
    def of(cls, raw: Json) -> Result:
        counts = raw.get("citations", {})
        return cls(
            status=plain(raw.get("status"), "RUN_STATUS_"),
            partial=raw.get("partial", False),
            error=raw.get("error"),
            title=raw.get("title", ""),
            text=raw.get("text", ""),
            summary=raw.get("summary", ""),
            document_id=raw.get("documentId"),
            data=raw.get("result", {}).get("jsonPayload"),
            statements={name: int(count) for name, count in counts.items() if name != "reasons"},
            cost_usd=usd(raw.get("usage", {}).get("costMicros")),
            raw=raw,
        )


@dataclass(frozen=True)
class Source:
    """Where a quote stands."""

    document_id: str
    path: str
    title: str
    #: Such as ``page 3`` or ``lines 4–6``.
    place: str


@dataclass(frozen=True)
class Citation:
    """A statement of an answer, and the quote behind it."""

    statement: str
    quote: str
    #: ``verified`` if the quote was found in its source; else why not.
    verdict: str
    #: ``supported`` if the quote says what the statement says; empty if nobody knows.
    support: str
    #: Why it is doubted.
    doubt: str
    source: Source
    raw: Json = field(repr=False)

    @classmethod
    def of(cls, raw: Json) -> Citation:
        citation = raw.get("citation", {})
        source = Source(
            document_id=citation.get("documentId", ""),
            path=citation.get("sourcePath", ""),
            title=citation.get("sourceTitle", ""),
            place=citation.get("passage", {}).get("place", ""),
        )
        return cls(
            statement=citation.get("claim", ""),
            quote=citation.get("quote", ""),
            verdict=plain(citation.get("verdict"), "VERDICT_"),
            support=plain(citation.get("support"), "SUPPORT_"),
            doubt=citation.get("doubt", ""),
            source=source,
            raw=raw,
        )


@dataclass(frozen=True)
class Bill:
    """What a fork would cost."""

    #: Nodes that it does again.
    nodes: int
    #: Nodes whose results it keeps.
    reused_nodes: int
    tokens: int
    cost_usd: float
    notes: list[str]
    raw: Json = field(repr=False)

    @classmethod
    def of(cls, raw: Json) -> Bill:
        return cls(
            nodes=int(raw.get("nodeCount", 0)),
            reused_nodes=int(raw.get("reusedNodes", 0)),
            tokens=int(raw.get("tokens", 0)),
            cost_usd=usd(raw.get("costMicros")),
            notes=list(raw.get("notes", [])),
            raw=raw,
        )


@dataclass(frozen=True)
class Imported:
    """What became of a file."""

    path: str
    #: ``created``, ``replaced``, ``unchanged`` or ``skipped``.
    outcome: str
    #: Why it was skipped.
    reason: str

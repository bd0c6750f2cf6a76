"""A client of tree-agent.

>>> from tree_agent_client import Client
>>> run = Client().run("What did we decide about the crane?", project="notes")
>>> print(run.wait().result().text)
"""

from .client import Client
from .errors import (
    Conflict,
    Disconnected,
    Error,
    InvalidArgument,
    LimitReached,
    NotAllowed,
    NotFound,
    Unauthenticated,
)
from .run import Run
from .values import Bill, Citation, Event, Imported, Result, Source, State

__all__ = [
    "Bill",
    "Citation",
    "Client",
    "Conflict",
    "Disconnected",
    "Error",
    "Event",
    "Imported",
    "InvalidArgument",
    "LimitReached",
    "NotAllowed",
    "NotFound",
    "Result",
    "Run",
    "Source",
    "State",
    "Unauthenticated",
]

"""Requests as values, and what may come of one. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar
from urllib.parse import quote

from foldline.client.landing import Landing

ORDINARY_S = 30.0
MOST_BATCH = 100


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request. `file` is its body, else `content` as JSON.

    `landing` takes a good answer's body; with `stream` it stays open for the caller.
    `silence_s`: how long nothing may come before the connection counts as lost.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Any = None
    file: Path | None = None
    landing: Landing | None = None
    stream: bool = False
    silence_s: float = ORDINARY_S


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Nothing is to be done for so long."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came back; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""
    stream: Any = None


@dataclass(frozen=True, kw_only=True)
class Lost:
    """No answer came, or not all of it; `final`: none will."""

    why: str
    final: bool = False


T = TypeVar("T")
Flow = Generator[Ask | Pause, Reply | Lost | None, T]
"""Work that asks and pauses, and ends in a T. A driver does the asking and the pausing."""


class Options(TypedDict, total=False):
    """What a submit may carry beside its inputs; see `POST /v1/models/{model}/jobs`."""

    seed: int
    priority: Literal["interactive", "batch"]
    session: str
    deadline_s: float
    start_within_s: float
    no_cache: bool
    next: Sequence[str]
    on_unavailable: Literal["fail", "suggest", "switch"]
    webhook: str


class File:
    """A file as an input: it is uploaded, and its artifact's id stands in its place.

    Only a field of format `artifact` takes one. A text that looks like a path is a text.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a model, as it goes into a batch."""

    model: str
    inputs: Mapping[str, Any]
    options: Options = field(default_factory=Options)
    idempotency_key: str = ""

    def body(self) -> dict[str, Any]:
        return {"inputs": self.inputs, **self.options}


def place(*parts: str) -> str:
    """A path under /v1; a part can name nothing but itself."""
    return "/".join(("/v1", *(_part(part) for part in parts)))


def _part(text: str) -> str:
    return (quote(text, safe="") or "%20").replace(".", "%2E")  # dots alone would go up


def post(path: str, content: Any = None, *, key: str = "") -> Ask:
    headers = {"Idempotency-Key": key} if key else {}
    return Ask(method="POST", path=path, content=content, headers=headers)

"""What the server tells. Times are aware; a member that may be missing has a default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from foldline.client.reading import Shape

ENDED = frozenset({"succeeded", "failed", "cancelled", "expired"})


@dataclass(frozen=True, kw_only=True)
class Finding(Shape):
    """One thing that is wrong; `pointer` is a JSON pointer into the body that was sent."""

    pointer: str = ""
    code: str = ""
    got: str = ""
    expected: str = ""
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class Alternative(Shape):
    """Another model that may serve the call."""

    model: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Problem(Shape):
    """Why a request was refused or a job failed (RFC 9457). `fault`: caller, platform, model."""

    code: str
    detail: str = ""
    title: str = ""
    status: int = 0
    retryable: bool = False
    fault: str = ""
    suggested_action: str = ""
    retry_after_s: float | None = None
    errors: tuple[Finding, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    request_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Limits(Shape):
    run_timeout_s: int | None = None


@dataclass(frozen=True, kw_only=True)
class Price(Shape):
    """A decimal as text."""

    per_gpu_second: str = ""
    currency: str = ""


@dataclass(frozen=True, kw_only=True)
class Scaling(Shape):
    warm: bool | None = None
    workers: int | None = None


@dataclass(frozen=True, kw_only=True)
class Model(Shape):
    """Something that can be called. `lane`: online (seconds), long (minutes), bulk (longer)."""

    name: str
    title: str = ""
    description: str = ""
    revision: str = ""
    version: str = ""
    lane: str = ""
    family: str = ""
    licence: str = ""
    seed_default: str = ""
    limits: Limits = field(default_factory=Limits)
    price: Price = field(default_factory=Price)
    scaling: Scaling = field(default_factory=Scaling)
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    output_schema: Mapping[str, Any] = field(default_factory=dict)
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Queue(Shape):
    """Its place in the line (1 is next), and why it does not run yet."""

    position: int | None = None
    ahead_gpu_s: float | None = None
    blocked_reason: str | None = None
    reason: str | None = None
    message: str | None = None
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Eta(Shape):
    """When it starts and ends: as likely before as after p50, nine times of ten before p90."""

    start_p50: datetime | None = None
    start_p90: datetime | None = None
    finish_p50: datetime | None = None
    finish_p90: datetime | None = None
    basis: str | None = None
    as_of: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class ColdStart(Shape):
    expected: bool | None = None
    p50_s: float | None = None
    p90_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Progress(Shape):
    """How far it is, 0 to 1."""

    fraction: float = 0.0
    stage: str = ""
    message: str = ""
    updated_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Warned(Shape):
    code: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Seed(Shape):
    value: int | None = None
    origin: str = ""


@dataclass(frozen=True, kw_only=True)
class Cache(Shape):
    hit: bool = False


@dataclass(frozen=True, kw_only=True)
class Used(Shape):
    gpu_seconds: float | None = None
    cost: str | None = None
    currency: str = ""


@dataclass(frozen=True, kw_only=True)
class Job(Shape):
    """One call. `poll_after_s`: when asking again makes sense; None once it has ended."""

    id: str
    state: str
    model: str
    revision: str = ""
    attempt: int = 0
    session: str = ""
    seed: Seed = field(default_factory=Seed)
    coalesced_with: str | None = None
    cache: Cache = field(default_factory=Cache)
    queue: Queue = field(default_factory=Queue)
    eta: Eta = field(default_factory=Eta)
    cold_start: ColdStart = field(default_factory=ColdStart)
    progress: Progress | None = None
    warnings: tuple[Warned, ...] = ()
    deadline: datetime | None = None
    poll_after_s: float | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    usage: Used = field(default_factory=Used)
    cancelling: bool = False
    error: Problem | None = None

    @property
    def ended(self) -> bool:
        return self.state in ENDED


@dataclass(frozen=True, kw_only=True)
class Estimate(Shape):
    """What a call would come to if it were submitted now."""

    model: str
    revision: str = ""
    normalized_inputs: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[Warned, ...] = ()
    refusal: Problem | None = None
    cache: Cache = field(default_factory=Cache)
    coalesced_with: str | None = None
    usage: Used = field(default_factory=Used)
    queue: Queue = field(default_factory=Queue)
    eta: Eta = field(default_factory=Eta)
    cold_start: ColdStart = field(default_factory=ColdStart)


@dataclass(frozen=True, kw_only=True)
class Result(Shape):
    """What a model answered. Files in it are artifacts: see `files_in`."""

    job: str
    model: str = ""
    revision: str = ""
    seed: Seed = field(default_factory=Seed)
    warnings: tuple[Warned, ...] = ()
    result: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Artifact(Shape):
    """A file. Its id is what an input field of format `artifact` takes; `size` in bytes."""

    id: str
    name: str
    sha256: str
    size: int
    media_type: str = ""


@dataclass(frozen=True, kw_only=True)
class BatchItem(Shape):
    """One call of a batch: its job, or why it was refused."""

    index: int
    job: Job | None = None
    error: Problem | None = None

    @property
    def open(self) -> bool:
        return self.job is not None and not self.job.ended


@dataclass(frozen=True, kw_only=True)
class Batch(Shape):
    """Calls that were sent together. `id` is empty when the server knows no batches."""

    id: str = ""
    session: str = ""
    poll_after_s: float | None = None
    jobs: tuple[BatchItem, ...] = ()

    @property
    def ended(self) -> bool:
        return not any(item.open for item in self.jobs)


@dataclass(frozen=True, kw_only=True)
class Page(Shape):
    """Jobs, newest first. `next_cursor` asks for the page that follows."""

    jobs: tuple[Job, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, kw_only=True)
class Usage(Shape):
    """What was used, saved and is left: all of it is in `body`, see GET /v1/usage."""

    currency: str = ""
    used: Used = field(default_factory=Used)
    saved: Used = field(default_factory=Used)

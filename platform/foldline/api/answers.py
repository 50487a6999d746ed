"""The answers' shapes for the OpenAPI document; the tests hold `api/bodies.py` against them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from foldline.jobs.blocked import Blocked

States = Literal["queued", "running", "succeeded", "failed", "cancelled", "expired"]


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Limits(Answer):
    run_timeout_s: int = Field(description="Seconds one job may run.")


class ModelUrls(Answer):
    self: str
    submit: str


class Model(Answer):
    """Something that can be called."""

    name: str
    title: str
    description: str
    revision: str = Field(examples=["flash_abb@r1"])
    version: str
    lane: Literal["online", "long", "bulk"] = Field(description="Seconds, minutes, or longer.")
    family: str
    licence: str
    seed_default: Literal["fixed", "random"]
    limits: Limits
    published_at: datetime | None
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    urls: ModelUrls


class ModelList(Answer):
    models: list[Model]


class Seed(Answer):
    value: int
    origin: Literal["caller", "default", "random"]


class Queue(Answer):
    position: int | None = Field(description="1 is next; null when the job does not wait.")
    blocked_reason: Blocked | None = Field(description="Why it does not run yet.")


class Progress(Answer):
    fraction: float = Field(ge=0, le=1)
    stage: str
    message: str
    updated_at: datetime


class Warned(Answer):
    code: str
    message: str


class Usage(Answer):
    gpu_seconds: float


class JobUrls(Answer):
    self: str
    result: str
    cancel: str


class Finding(Answer):
    """One thing that is wrong, and where."""

    pointer: str = Field(description="JSON pointer into the body.", examples=["/inputs/sequence"])
    code: str
    got: str
    expected: str
    hint: str


class Problem(BaseModel):
    """RFC 9457, the same for a refused request and for a failed job."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    fault: Literal["caller", "platform", "model"]
    suggested_action: str
    retry_after_s: int | None = None
    errors: list[Finding] = []
    request_id: str | None = None


class Cache(Answer):
    hit: bool = Field(description="The result is that of an equal call that ran before.")


class Job(Answer):
    """One call of a model."""

    id: UUID
    state: States
    model: str
    revision: str
    attempt: int
    priority: Literal["interactive", "batch"]
    session: str
    seed: Seed
    fingerprint: str
    coalesced_with: UUID | None = Field(
        description="The job of an equal call whose run answers this one, too."
    )
    cache: Cache
    queue: Queue
    progress: Progress | None
    warnings: list[Warned]
    start_by: datetime | None
    deadline: datetime | None
    poll_after_s: int | None = Field(description="Ask again after; null once the job has ended.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    usage: Usage
    cancelling: bool = Field(description="A cancel was asked for and the worker still stops.")
    error: Problem | None
    urls: JobUrls


class JobList(Answer):
    jobs: list[Job]
    next_cursor: str | None


class Result(Answer):
    """What a model answered. Files in it are artifacts."""

    job: UUID
    state: Literal["succeeded"]
    model: str
    revision: str
    seed: Seed
    fingerprint: str
    warnings: list[Warned]
    result: dict[str, Any]


class ArtifactUrls(Answer):
    self: str
    content: str


class Artifact(Answer):
    """A file of yours. Its id is what an input field of format `artifact` takes."""

    id: UUID
    name: str
    media_type: str
    size: int = Field(description="Bytes.")
    sha256: str
    urls: ArtifactUrls

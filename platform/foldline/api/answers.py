"""The answers' shapes for the OpenAPI document; the tests hold `api/bodies.py` against them."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from foldline.forecasts.places import Reason
from foldline.jobs.blocked import Blocked

States = Literal["queued", "running", "succeeded", "failed", "cancelled", "expired"]


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Limits(Answer):
    run_timeout_s: int = Field(description="Seconds one job may run.")


class Price(Answer):
    """A decimal as text, so that nothing is lost of it."""

    per_gpu_second: str = Field(examples=["0.000600"])
    currency: str = Field(description="ISO 4217.", examples=["USD"])


class Scaling(Answer):
    """Whether it answers at once, and how many workers it has."""

    warm: bool = Field(description="A worker has it loaded. Else the first job waits for a load.")
    workers: int = Field(description="Those that load, wait, work or leave.")
    desired: int | None = Field(description="What the scaler wants; null while it says nothing.")
    tier: Literal["hot", "hourly", "daily"] | None = Field(description="How often it is called.")


class Alternative(Answer):
    """Another model that may serve the call."""

    model: str
    why: str


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
    price: Price
    scaling: Scaling
    alternatives: list[Alternative] = Field(
        description="Models that may stand in for it, the best first."
    )
    published_at: datetime | None
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    urls: ModelUrls


class ModelList(Answer):
    models: list[Model]


class LeftOut(Answer):
    name: str
    why: str


class ToolList(Answer):
    format: Literal["openai", "anthropic", "mcp"]
    tools: list[dict[str, Any]] = Field(description="As the vendor's API takes them.")
    left_out: list[LeftOut] = Field(description="Models that cannot be told in this format.")


class Seed(Answer):
    value: int
    origin: Literal["caller", "default", "random"]


class Queue(Answer):
    """Its place in the line, as it was a few seconds ago at most."""

    position: int | None = Field(
        description="1 is next. Null: it does not wait, a limit holds it, or nobody knows. It"
        " rises only with a `reason`."
    )
    ahead_gpu_s: float | None = Field(description="GPU-seconds of the jobs in front, estimated.")
    blocked_reason: Blocked | None = Field(description="Why it does not run yet.")
    reason: Reason | None = Field(
        description="Why its place rose, or its start was put off: jobs of others went ahead"
        " (`fair_share`), one that is tried again came back (`retry`), there are fewer workers"
        " (`worker_lost`)."
    )
    message: str | None = Field(
        description="The same in words.", examples=["8 ahead, about 4 min, model is loading"]
    )
    alternatives: list[Alternative] = Field(
        description="While its model is `paused` or `crash_looping`: other models that may serve"
        " this very call, the best first. Cancel it before you send it there."
    )


class Eta(Answer):
    """When it starts and ends: as likely before as after p50, nine times of ten before p90.

    No time lies in the past. All null: nobody can say.
    """

    start_p50: datetime | None = Field(description="Null as well once it runs.")
    start_p90: datetime | None
    finish_p50: datetime | None
    finish_p90: datetime | None
    basis: Literal["history", "assumed"] | None = Field(
        description="Past jobs of the model, or an assumption until one has run."
    )
    as_of: datetime | None = Field(description="When it was worked out.")


class ColdStart(Answer):
    expected: bool | None = Field(description="No worker of the model is loaded.")
    p50_s: float | None = Field(description="How long loading takes.")
    p90_s: float | None


class Progress(Answer):
    fraction: float = Field(ge=0, le=1)
    stage: str
    message: str
    updated_at: datetime


class Warned(Answer):
    model_config = ConfigDict(serialize_by_alias=True)

    code: str
    message: str
    of: Literal["call"] | None = Field(
        default=None, description="`call`: about what was sent, and known before it ran."
    )
    origin: str | None = Field(
        default=None, alias="from", description="With `switched`: the model that was called."
    )
    to: str | None = Field(default=None, description="The model that answers in its place.")
    why: str | None = Field(default=None, description="Why the one called takes no work.")


class Usage(Answer):
    gpu_seconds: float


class Amount(Answer):
    gpu_seconds: float = Field(description="Wall seconds times the share of the card.")
    cost: str = Field(description="In `currency`; a decimal as text.", examples=["1.250000"])


class Used(Amount):
    compute_gpu_seconds: float = Field(description="Of attempts that made an answer.")
    wasted_gpu_seconds: float = Field(description="Of attempts that failed or were cancelled.")


class SavedJobs(Amount):
    jobs: int


class Saved(Amount):
    """What jobs would have used that no worker had to compute."""

    cache: SavedJobs = Field(description="Answered by an equal call that had run before.")
    coalesced: SavedJobs = Field(description="Answered by an equal call that ran meanwhile.")
    expired: SavedJobs = Field(description="Expired before they started: as estimated.")
    cancelled: SavedJobs = Field(description="Cancelled before they started: as estimated.")


class Budget(Answer):
    """GPU-seconds."""

    allowed: int
    used: float
    left: float
    until: datetime


class Budgets(Answer):
    day: Budget | None = Field(description="Null: no budget is set.")
    month: Budget | None


class ModelBudgets(Budgets):
    model: str


class Left(Budgets):
    models: list[ModelBudgets] = Field(description="Models that have a budget of their own.")


class SessionUse(Answer):
    used: Amount
    saved: Amount


class NamedSessionUse(SessionUse):
    session: str


class ModelUse(Answer):
    model: str
    used: Used
    saved: Amount


class UsageReport(Answer):
    """What a tenant used, saved and has left."""

    model_config = ConfigDict(serialize_by_alias=True)

    first: date = Field(alias="from")
    last: date = Field(alias="to", description="It counts, too.")
    currency: str
    used: Used
    saved: Saved
    left: Left
    models: list[ModelUse] = Field(description="Those that used most first.")
    sessions: list[NamedSessionUse] = Field(description="Those that used most first, 100 of them.")
    other_sessions: SessionUse = Field(description="All that are not listed, together.")


class JobUrls(Answer):
    self: str
    result: str
    events: str
    cancel: str


class Finding(Answer):
    """One thing that is wrong, and where."""

    pointer: str = Field(description="JSON pointer into the body.", examples=["/inputs/sequence"])
    code: str
    got: str
    expected: str
    hint: str


class Refusing(Answer):
    """The limit that refuses: which, how much of it is used, and until when at the latest."""

    name: str = Field(examples=["waiting"])
    model: str | None = Field(description="Null: over all models.")
    used: float | None
    allowed: float | None
    until: datetime | None


class Unavailable(Answer):
    """Why a model takes no work, and until when, if that is known."""

    model: str
    reason: Literal["retired", "paused", "crash_looping", "no_workers"]
    message: str
    until: datetime | None


class Tried(Answer):
    """An alternative that did not take the call."""

    model: str
    reason: Literal["retired", "paused", "crash_looping", "no_workers", "quota", "inputs"]
    message: str


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
    limit: Refusing | None = Field(
        default=None, description="With `quota_exceeded` and `quota_forbids`."
    )
    violated_policies: list[str] = Field(
        default=[],
        alias="violated-policies",
        description="Names as in the headers `RateLimit-Policy` and `RateLimit`.",
    )
    first_error: dict[str, Any] | None = Field(
        default=None, description="With `repeat_failure`: the problem of the first of them."
    )
    alternatives: list[Alternative] = Field(
        default=[], description="Other models that may serve this very call, the best first."
    )
    unavailable: Unavailable | None = Field(
        default=None, description="With `model_unavailable`: the model that was called."
    )
    tried: list[Tried] = Field(
        default=[], description="With `on_unavailable: switch`: what was asked in its place."
    )
    request_id: str | None = None


class CataloguedError(Answer):
    """What a code means, wherever it comes up."""

    type: str = Field(examples=["/v1/errors/invalid_input"])
    code: str
    title: str
    status: int = Field(description="Of HTTP; for a failed job, that of its result's address.")
    fault: Literal["caller", "platform", "model"]
    retryable: bool = Field(description="Whether sending the very same again may help.")
    suggested_action: str
    names_alternatives: bool = Field(description="Whether another model may serve the call.")
    description: str


class CataloguedFinding(Answer):
    code: str
    description: str


class ErrorCatalogue(Answer):
    errors: list[CataloguedError]
    findings: list[CataloguedFinding]


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
    eta: Eta
    cold_start: ColdStart
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


class EstimatedUse(Answer):
    gpu_seconds: float | None = Field(description="Null until a job of the model has run.")
    cost: str | None = Field(description="In `currency`; a decimal as text.")
    currency: str


class Memory(Answer):
    """Of one worker, in bytes."""

    peak_bytes: int = Field(description="The most that was measured.")
    limit_bytes: int
    fits: bool


class Estimate(Answer):
    """What a call would come to if it were submitted now."""

    model: str
    revision: str
    normalized_inputs: dict[str, Any] = Field(description="Defaults filled in.")
    warnings: list[Warned]
    refusal: Problem | None = Field(description="Why a quota would refuse it now.")
    cache: Cache
    coalesced_with: UUID | None = Field(description="The job whose run it would share.")
    usage: EstimatedUse
    memory: Memory | None = Field(description="Null: no worker of the model was measured yet.")
    queue: Queue
    eta: Eta
    cold_start: ColdStart


class CalibrationRow(Answer):
    model: str
    priority: Literal["interactive", "batch"]
    jobs: int = Field(description="Jobs that have started.")
    coverage: float = Field(
        description="The part of them that started before the p90 they were told."
    )
    long_waits: int
    error: float | None = Field(description="Mean of |p50 - wait| / wait over the long waits.")
    since: datetime
    updated_at: datetime


class CalibrationReport(Answer):
    promised_coverage: float
    models: list[CalibrationRow]


class JobList(Answer):
    jobs: list[Job]
    next_cursor: str | None


class Health(Answer):
    """Whether an endpoint takes what it is sent."""

    failures: int = Field(description="In a row.")
    failing_since: datetime | None
    paused_until: datetime | None = Field(description="It gets a rest after several failures.")
    answered_at: datetime | None = Field(description="When it took a message last.")


class WebhookUrls(Answer):
    self: str
    deliveries: str
    test: str
    rotate: str
    enable: str


class WebhookEndpoint(Answer):
    """Where you are told of the ends of jobs."""

    id: UUID
    url: str
    description: str
    events: list[str] = Field(description="Types it hears of; empty: all.")
    all_jobs: bool = Field(description="False: only of jobs that name it in `webhook`.")
    state: Literal["enabled", "disabled"]
    disabled_reason: str | None
    old_secret_until: datetime | None = Field(
        description="Until then the secret before the last rotation signs, too."
    )
    health: Health
    created_at: datetime
    urls: WebhookUrls


class WebhookSecret(WebhookEndpoint):
    """The same with its secret, which is shown this once only."""

    secret: str = Field(examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])


class WebhookList(Answer):
    endpoints: list[WebhookEndpoint]


class Try(Answer):
    attempt: int = Field(description="Counted anew when it is asked for again.")
    status: int | None = Field(description="Of the answer; null when there was none.")
    ms: int
    error: str | None = Field(description="What went wrong, in words.")
    at: datetime


class DeliveryUrls(Answer):
    redeliver: str


class Delivery(Answer):
    """One message to one endpoint, and what came of it."""

    id: UUID
    event: UUID = Field(description="The header `webhook-id`: the same in every try.")
    type: str = Field(examples=["job.succeeded"])
    job: UUID | None
    state: Literal["waiting", "delivered", "dead", "dropped"]
    tries: list[Try] = Field(description="The latest last, at most 20.")
    next_try_at: datetime | None
    note: str | None = Field(description="Why it is not sent any more.")
    created_at: datetime
    urls: DeliveryUrls


class DeliveryList(Answer):
    deliveries: list[Delivery]
    next_cursor: str | None


class BatchCounts(Answer):
    """How many items are in each state. Jobs that were removed as old are in none."""

    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    expired: int
    refused: int = Field(description="Items that became no job.")


class BatchJob(Answer):
    """What became of one item: a job, or the problem why there is none."""

    index: int = Field(description="Its place in `jobs` of the request, from 0.")
    job: Job | None
    error: Problem | None


class BatchUrls(Answer):
    self: str
    cancel: str


class Batch(Answer):
    """Jobs that came in one request, in its order."""

    id: UUID
    session: str
    state: Literal["open", "done"] = Field(description="`open` while any of its jobs is.")
    counts: BatchCounts
    jobs: list[BatchJob]
    created_at: datetime
    poll_after_s: int | None = Field(description="Ask again after; null once all have ended.")
    urls: BatchUrls


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
    download: str = Field(description="The content without a key, for ten minutes from now.")


class Artifact(Answer):
    """A file of yours. Its id is what an input field of format `artifact` takes."""

    id: UUID
    name: str
    media_type: str
    size: int = Field(description="Bytes.")
    sha256: str
    urls: ArtifactUrls

"""The one catalogue of errors: what a caller may be told, and whether trying again helps.

A class carries code, HTTP status and advice; its docstring is its default message. The
same shape (RFC 9457) answers a refused request and describes a failed job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Self

Problem = dict[str, Any]
Fault = Literal["caller", "platform", "model"]

SHOWN_CHARACTERS = 64
CATALOGUE: dict[str, type[FoldlineError]] = {}
"""Every code with its class."""


def shown(value: object, *, most: int = SHOWN_CHARACTERS) -> str:
    """A caller's value as it may be repeated: short, and without control characters."""
    if isinstance(value, dict | list) and len(value) > most // 8:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = value if isinstance(value, str) else json.dumps(value, default=repr)
    clean = "".join(c for c in text[: 2 * most] if c.isprintable())
    return clean if len(clean) <= most else clean[: most - 1] + "…"


def pointer(*path: str | int) -> str:
    """The JSON pointer (RFC 6901) to a place in the body."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def finding(
    place: str, code: str, *, got: object = "", expected: object = "", hint: str = ""
) -> dict[str, str]:
    """One entry of a problem's `errors`: where (a JSON pointer), what, and what was expected."""
    return {
        "pointer": shown(place, most=500),
        "code": code,
        "got": shown(got),
        "expected": expected if isinstance(expected, str) else shown(expected),
        "hint": hint,
    }


class FoldlineError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = ""
    status: ClassVar[int] = 500
    title: ClassVar[str] = ""
    retryable: ClassVar[bool] = False
    fault: ClassVar[Fault] = "caller"
    suggested_action: ClassVar[str] = ""
    elsewhere: ClassVar[bool] = False
    """Whether another model may serve the call: the problem then names alternatives."""
    tool_action: ClassVar[str] = ""
    """The advice for a caller who has tools (MCP) and no addresses, where that is another."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "code" in vars(cls):
            CATALOGUE[cls.code] = cls

    def __init__(
        self,
        message: str = "",
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        retry_after_s: int | None = None,
        **extra: Any,
    ) -> None:
        self.message = message or self.description()
        super().__init__(self.message)
        self.errors = list(errors)
        self.retry_after_s = retry_after_s
        self.extra = extra

    @classmethod
    def description(cls) -> str:
        """What has happened, in general: the docstring on one line."""
        return " ".join((cls.__doc__ or "").split())


def problem(error: FoldlineError, request_id: str) -> Problem:
    """The body of an `application/problem+json` answer."""
    return {**_described(error), "request_id": request_id}


def job_error(code: str, message: str = "", /, **details: Any) -> Problem:
    """The same shape for a failed job, without a request.

    `details` may hold `pointer` (into the inputs) with `code`, `got`, `expected`, `hint`, as
    a plugin's `InvalidInput` has them. A code the catalogue does not know is the model's own.
    """
    kind = CATALOGUE.get(code)
    if kind is None:
        kind, details = ModelError, {**details, "model_code": code}
    if "pointer" not in details:
        extra: dict[str, Any] = {"details": details} if details else {}
        return _described(kind(message, **extra))
    return _described(kind(message, errors=[input_finding(details)]))


def input_finding(details: Mapping[str, Any]) -> dict[str, str]:
    """What a plugin's `InvalidInput` says of a place in the inputs."""
    return finding(
        "/inputs" + str(details.get("pointer", "")),
        str(details.get("code") or "invalid"),
        got="" if details.get("got") is None else details["got"],
        expected="" if details.get("expected") is None else details["expected"],
        hint=str(details.get("hint") or ""),
    )


def _described(error: FoldlineError) -> Problem:
    body: Problem = {
        "type": f"/v1/errors/{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": error.message,
        "code": error.code,
        "retryable": error.retryable,
        "fault": error.fault,
        "suggested_action": error.suggested_action,
    }
    if error.retry_after_s is not None:
        body["retry_after_s"] = error.retry_after_s
    if error.errors:
        body["errors"] = error.errors
    return {**body, **error.extra}


class InvalidJSON(FoldlineError):
    """The body is not the JSON this service reads."""

    code = "invalid_json"
    status = 400
    title = "Unreadable JSON"
    suggested_action = "Send one JSON object in UTF-8, without duplicate keys, NaN or NUL."


class InvalidRequest(FoldlineError):
    """The request holds something unknown or of the wrong kind."""

    code = "invalid_request"
    status = 400
    title = "Invalid request"
    suggested_action = "Correct what `errors` points at and send the request again."


class KeyInURL(FoldlineError):
    """An API key stands in the URL. URLs end up in logs: this key is compromised."""

    code = "key_in_url"
    status = 400
    title = "API key in the URL"
    suggested_action = "Have this key revoked, and send the new one as `Authorization: Bearer`."


class KeyMissing(FoldlineError):
    """The request carries no API key."""

    code = "key_missing"
    status = 401
    title = "No API key"
    suggested_action = "Send the header `Authorization: Bearer <your key>`."


class KeyRefused(FoldlineError):
    """The API key is unknown, revoked or expired."""

    code = "key_refused"
    status = 401
    title = "API key refused"
    suggested_action = "Ask an administrator for a valid key."


class ScopeMissing(FoldlineError):
    """The API key may not do this."""

    code = "scope_missing"
    status = 403
    title = "Not allowed with this key"
    suggested_action = "Use a key with the scope this call needs."


class OriginRefused(FoldlineError):
    """A page of another site sent this request."""

    code = "origin_refused"
    status = 403
    title = "Foreign origin"
    suggested_action = "Call from a program, without the header `Origin`, or from a page of ours."


class HostRefused(FoldlineError):
    """The header `Host` names somebody else."""

    code = "host_refused"
    status = 421
    title = "Foreign host"
    suggested_action = "Use the address an administrator gave you (`FOLDLINE_HOSTS` lists it)."


class NotFound(FoldlineError):
    """There is nothing at this address."""

    code = "not_found"
    status = 404
    title = "Not found"
    suggested_action = "See /v1/openapi.json for what can be called."


class ModelNotFound(FoldlineError):
    """No model of this name can be called."""

    code = "model_not_found"
    status = 404
    title = "Unknown model"
    suggested_action = "List the models at /v1/models."
    tool_action = "List the tools again: each model is one, and models come and go."
    elsewhere = True


class JobNotFound(FoldlineError):
    """There is no such job."""

    code = "job_not_found"
    status = 404
    title = "Unknown job"
    suggested_action = "List your jobs at /v1/jobs."
    tool_action = "Use the `job_id` of an answer of yours; else call the model's tool."


class BatchNotFound(FoldlineError):
    """There is no such batch."""

    code = "batch_not_found"
    status = 404
    title = "Unknown batch"
    suggested_action = "Use the id of a batch of yours; its jobs are also listed at /v1/jobs."


class ArtifactNotFound(FoldlineError):
    """There is no such file."""

    code = "artifact_not_found"
    status = 404
    title = "Unknown artifact"
    suggested_action = "Upload the file at /v1/artifacts and use the id it gets."


class WebhookNotFound(FoldlineError):
    """There is no such webhook endpoint."""

    code = "webhook_not_found"
    status = 404
    title = "Unknown webhook endpoint"
    suggested_action = "List your endpoints at /v1/webhook-endpoints."


class DeliveryNotFound(FoldlineError):
    """There is no such delivery."""

    code = "delivery_not_found"
    status = 404
    title = "Unknown delivery"
    suggested_action = "List the deliveries of the endpoint."


class ErrorCodeNotFound(FoldlineError):
    """No error has this code."""

    code = "error_code_not_found"
    status = 404
    title = "Unknown error code"
    suggested_action = "List the codes at /v1/errors."


class LinkExpired(FoldlineError):
    """This link to a file was good for a few minutes, which are over."""

    code = "link_expired"
    status = 410
    title = "Link expired"
    suggested_action = "Ask for the file at /v1/artifacts/{id}: its `urls.download` is a new link."


class MethodNotAllowed(FoldlineError):
    """This address does not take this method."""

    code = "method_not_allowed"
    status = 405
    title = "Method not allowed"
    suggested_action = "See the header `Allow`."


class JobNotFinished(FoldlineError):
    """The job has no result yet."""

    code = "job_not_finished"
    status = 409
    title = "Not finished"
    retryable = True
    suggested_action = "Ask again after `retry_after_s` seconds."


class KeyRotation(FoldlineError):
    """A key is rotated by one successor at a time."""

    code = "key_rotation"
    status = 409
    title = "Cannot make this key"
    suggested_action = "Revoke the key that is no longer used, or wait until it has expired."


class WebhookExists(FoldlineError):
    """An endpoint with this URL is there already."""

    code = "webhook_exists"
    status = 409
    title = "Endpoint exists"
    suggested_action = "Use the one that is there, or rotate it."


class WebhookLimit(FoldlineError):
    """No further endpoint may be registered."""

    code = "webhook_limit"
    status = 409
    title = "Too many endpoints"
    suggested_action = "Delete an endpoint that is no longer needed."


class WebhookDisabled(FoldlineError):
    """The endpoint is disabled and gets nothing."""

    code = "webhook_disabled"
    status = 409
    title = "Endpoint disabled"
    suggested_action = "Mend the receiver, then `enable` the endpoint."


class RevisionNotPublishable(FoldlineError):
    """This revision cannot go live."""

    code = "revision_not_publishable"
    status = 409
    title = "Cannot be set live"
    suggested_action = "Review the newest draft of the model."


class ModelRetired(FoldlineError):
    """This model has been retired and takes no new jobs."""

    code = "model_retired"
    status = 410
    title = "Model retired"
    suggested_action = "Choose another model from /v1/models."
    tool_action = "Call another model's tool; list the tools again."
    elsewhere = True


class LengthRequired(FoldlineError):
    """The request does not say how long its body is."""

    code = "length_required"
    status = 411
    title = "Length required"
    suggested_action = "Send the header `Content-Length`."


class BodyTooLarge(FoldlineError):
    """The body is larger than this service takes."""

    code = "body_too_large"
    status = 413
    title = "Body too large"
    suggested_action = "Upload large data as an artifact and refer to it by its id."


class UnsupportedMediaType(FoldlineError):
    """The body is not of a kind this address reads."""

    code = "unsupported_media_type"
    status = 415
    title = "Unsupported media type"
    suggested_action = "Send JSON as `Content-Type: application/json`, not compressed."


class IdempotencyKeyReused(FoldlineError):
    """This idempotency key came with another payload before."""

    code = "idempotency_key_reused"
    status = 422
    title = "Idempotency key reused"
    suggested_action = "Use a new key for a new payload, or repeat the first payload exactly."


class InvalidInput(FoldlineError):
    """The inputs are not what the model takes."""

    code = "invalid_input"
    status = 422
    title = "Invalid input"
    suggested_action = "Correct what `errors` points at; sending the same again does not help."


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A limit as HTTP's `RateLimit` fields tell it: whole numbers, `left` of `quota`."""

    name: str
    quota: int
    left: int
    window_s: int | None = None
    unit: str = ""


class _OverQuota(FoldlineError):
    """A quota has no room for this."""

    policy: Policy | None = None

    @classmethod
    def of(
        cls,
        limit: str,
        *,
        used: float | None,
        allowed: float | None,
        until: datetime | None = None,
        retry_after_s: int | None = None,
        model: str = "",
        window_s: int | None = None,
        unit: str = "",
    ) -> Self:
        """The refusal that a limit of `Quota` calls for.

        `used` and `allowed` are in the limit's own unit; None where it has no number. `until`:
        when there will be room at the latest, if that is known. `model`: of a limit of one
        model. `window_s` and `unit` (as HTTP names it; empty: requests) go into the headers.
        """
        name = f"{limit}:{model}" if model else limit
        told = {
            "name": limit,
            "model": model or None,
            "used": _whole(used),
            "allowed": _whole(allowed),
            "until": until and f"{until.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        }
        members: dict[str, Any] = {"limit": told, "violated-policies": [name]}
        error = cls(_over(limit, model, used, allowed), retry_after_s=retry_after_s, **members)
        if used is not None and allowed is not None:
            error.policy = Policy(
                name=name,
                quota=int(allowed),
                left=max(0, int(allowed - used)),
                window_s=window_s,
                unit=unit,
            )
        return error


def _over(limit: str, model: str, used: float | None, allowed: float | None) -> str:
    whose = f"{limit} of {model}" if model else limit
    if used is None or allowed is None:
        return f"The quota forbids this: {whose}."
    return f"The quota has no room for this: {whose}, {_plain(used)} used of {_plain(allowed)}."


def _whole(number: float | None) -> float | None:
    """A count without the `.0` that arithmetic gave it."""
    return int(number) if number is not None and number == int(number) else number


def _plain(number: float) -> str:
    return f"{round(number, 3):.15g}"


class QuotaExceeded(_OverQuota):
    """The quota has no room for this now."""

    code = "quota_exceeded"
    status = 429
    title = "Quota exceeded"
    retryable = True
    suggested_action = "Send it again after `retry_after_s` seconds; `limit` tells which limit."
    elsewhere = True


class QuotaForbids(_OverQuota):
    """The quota does not allow this."""

    code = "quota_forbids"
    status = 403
    title = "Not allowed by the quota"
    suggested_action = "Ask for less, or ask an administrator to raise what `limit` names."
    elsewhere = True


class RepeatFailure(FoldlineError):
    """This very call has failed several times in a row and is not tried again for now."""

    code = "repeat_failure"
    status = 429
    title = "The same call keeps failing"
    suggested_action = "Change the call: `first_error` says why it fails each time."

    @classmethod
    def of(cls, first_error: Problem, *, failures: int, retry_after_s: int) -> Self:
        """`failures`: how often in a row. `first_error`: the problem of the first of them."""
        message = f"This very call has failed {failures} times in a row."
        return cls(message, retry_after_s=retry_after_s, first_error=first_error)


class TooManyWaits(FoldlineError):
    """So many calls of this tenant wait at once that no further one may."""

    code = "too_many_waits"
    status = 429
    title = "Too many waiting calls"
    retryable = True
    suggested_action = "Wait for many jobs with one call (a batch), or ask without waiting."


class WaitingRoomFull(FoldlineError):
    """So many callers wait here that no further one may."""

    code = "waiting_room_full"
    status = 503
    title = "No room to wait"
    retryable = True
    fault = "platform"
    suggested_action = "Ask without waiting, or wait again after `retry_after_s` seconds."


class InternalError(FoldlineError):
    """Something broke on our side. It has been written down under the request's id."""

    code = "internal"
    title = "Internal error"
    retryable = True
    fault = "platform"
    suggested_action = "Try again, with the same idempotency key; else report the request's id."


class DatabaseUnavailable(FoldlineError):
    """The database does not answer at the moment."""

    code = "database_unavailable"
    status = 503
    title = "Temporarily unavailable"
    retryable = True
    fault = "platform"
    suggested_action = "Repeat the request, with the same idempotency key, after `retry_after_s`."


class ModelUnavailable(FoldlineError):
    """The model takes no work at the moment, and the call was not to wait for it."""

    code = "model_unavailable"
    status = 503
    title = "Model unavailable"
    retryable = True
    fault = "platform"
    suggested_action = "Try again after `retry_after_s`, choose another model, or let it wait."
    elsewhere = True


class Storage(FoldlineError):
    """The store of files does not answer at the moment."""

    code = "storage"
    status = 503
    title = "File store unavailable"
    retryable = True
    fault = "platform"
    suggested_action = "Try again later."


class JobFailure(FoldlineError):
    """The job has no result."""

    # Asking for the result again is what does not help; so no 5xx, which clients repeat.
    status = 409
    fault: ClassVar[Fault] = "model"
    suggested_action = "Change the inputs or choose another model."


class Cancelled(JobFailure):
    """The job was cancelled."""

    code = "cancelled"
    title = "Cancelled"
    fault = "caller"
    suggested_action = "Submit it again if the result is still wanted."


class DeadlineExceeded(JobFailure):
    """The job ran longer than its deadline or its model's time limit allows."""

    code = "deadline_exceeded"
    title = "Deadline exceeded"
    fault = "caller"
    suggested_action = "Give it more time with `deadline_s`, or ask for less work."


class Expired(JobFailure):
    """The job could not start in the time the caller allowed."""

    code = "expired"
    title = "Expired before it started"
    retryable = True
    fault = "platform"
    suggested_action = "Submit it again with more time (`start_within_s`, `deadline_s`)."


class GpuOutOfMemory(JobFailure):
    """The card has too little memory for these inputs."""

    code = "gpu_oom"
    title = "Out of GPU memory"
    suggested_action = "Send a smaller input."
    elsewhere = True


class HostOutOfMemory(JobFailure):
    """The machine has too little memory for these inputs."""

    code = "host_oom"
    title = "Out of memory"
    suggested_action = "Send a smaller input."
    elsewhere = True


class DependencyUnavailable(JobFailure):
    """Something the model needs does not answer."""

    code = "dependency_unavailable"
    title = "Dependency unavailable"
    retryable = True
    fault = "platform"
    suggested_action = "Submit it again later."
    elsewhere = True


class Broker(JobFailure):
    """The message broker failed while the job was running."""

    code = "broker"
    title = "Broker failed"
    retryable = True
    fault = "platform"
    suggested_action = "Submit it again."


class WorkerLost(JobFailure):
    """The worker that ran the job disappeared."""

    code = "worker_lost"
    title = "Worker lost"
    retryable = True
    fault = "platform"
    suggested_action = "Submit it again."


class Poison(JobFailure):
    """The job brought down its worker in every attempt and is not tried again."""

    code = "poison"
    title = "Given up after several attempts"
    suggested_action = "Report it to an administrator; `details.cause` tells the last failure."
    elsewhere = True


class ModelError(JobFailure):
    """The model could not compute an answer."""

    code = "model_error"
    title = "Model failed"
    elsewhere = True


class ModelOutputInvalid(JobFailure):
    """The model produced something that is no answer."""

    code = "model_output_invalid"
    title = "Model gave no valid answer"
    elsewhere = True


class OutputTooLarge(JobFailure):
    """The model's answer is larger than the platform keeps."""

    code = "output_too_large"
    title = "Answer too large"
    suggested_action = "Ask for less in one job."


class PluginCrashed(JobFailure):
    """The model's process was ended by a signal."""

    code = "plugin_crashed"
    title = "Model crashed"
    elsewhere = True


class PluginExited(JobFailure):
    """The model's process ended by itself with an error."""

    code = "plugin_exited"
    title = "Model exited"
    elsewhere = True


class PluginNoAnswer(JobFailure):
    """The model's process ended without an answer."""

    code = "plugin_no_answer"
    title = "No answer from the model"
    elsewhere = True


class ProtocolBroken(JobFailure):
    """The model's process sent something that cannot be read."""

    code = "protocol_broken"
    title = "Unreadable answer from the model"
    elsewhere = True


class WeightsMismatch(JobFailure):
    """The model's weights are not the reviewed ones."""

    code = "weights_mismatch"
    title = "Wrong weights"
    fault = "platform"
    suggested_action = "Report it to an administrator: the runtime must be installed again."
    elsewhere = True


class LoadFailed(JobFailure):
    """The model could not be loaded."""

    code = "load_failed"
    title = "Model did not load"
    retryable = True
    fault = "platform"
    suggested_action = "Report it to an administrator, or choose another model."
    elsewhere = True

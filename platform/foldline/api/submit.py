"""From a request to a job. The hot path: no query is made but the insert."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from foldline.api.elsewhere import name_alternatives
from foldline.api.envelope import SubmitBody, idempotency_key, submit_body, traceparent
from foldline.api.preflight import preflighted
from foldline.api.routing import route
from foldline.artifacts.selectors import hashes_of
from foldline.catalog.alternatives import shelf
from foldline.catalog.fingerprint import digest
from foldline.catalog.selectors import LiveModel
from foldline.errors import (
    FoldlineError,
    IdempotencyKeyReused,
    InvalidInput,
    InvalidRequest,
    ModelRetired,
    ModelUnavailable,
    finding,
    pointer,
)
from foldline.forecasts.reading import estimate_gpu_s
from foldline.jobs import services, tickets
from foldline.jobs.admission import Submission, Submitted, replayed
from foldline.notify.endpoints import hears_all, resolve
from foldline.tenants.quotas import limits_of
from foldline.tenants.services import Caller

DEFAULT_SEED = 0
POINTER_CHARACTERS = 128
_PATH = re.compile(r"[/\\~]|^\.|\.\w{1,8}$|^\w+:")
"""What is written like a path, a file's name or an address."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A call that is in order, and the model that is to answer it."""

    model: LiveModel
    submission: Submission


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """What became of a call; `call` is None when it came no further than its key."""

    submitted: Submitted
    call: Call | None = None


def accept(
    *, caller: Caller, name: str, payload: Mapping[str, Any], headers: Mapping[str, Any]
) -> Accepted:
    """Make a job of a call of the model `name`. Raises whatever refuses it."""
    call = call_or_known(caller=caller, name=name, payload=payload, headers=headers)
    if isinstance(call, Submitted):
        return Accepted(submitted=call)
    try:
        return Accepted(submitted=services.submit(call.submission), call=call)
    except FoldlineError as error:
        _name_alternatives(error, caller, call.model.name, payload)
        raise


def call_or_known(
    *, caller: Caller, name: str, payload: Mapping[str, Any], headers: Mapping[str, Any]
) -> Call | Submitted:
    """As `call_of`; for a call that is refused by now, the job that its key named before."""
    try:
        return call_of(caller=caller, name=name, payload=payload, headers=headers)
    except (ModelRetired, ModelUnavailable, InvalidRequest, InvalidInput) as refusal:
        # What was accepted once stays so: the model, a file or an endpoint may have gone since.
        known = _known(refusal, caller=caller, name=name, payload=payload, headers=headers)
        if known is None:
            raise
        return known


def _known(
    refusal: FoldlineError,
    *,
    caller: Caller,
    name: str,
    payload: Mapping[str, Any],
    headers: Mapping[str, Any],
) -> Submitted | None:
    try:
        return replayed(
            tenant_id=caller.tenant_id,
            idempotency_key=idempotency_key(headers),
            payload_digest=payload_digest(name, payload),
        )
    except IdempotencyKeyReused:
        if isinstance(refusal, ModelRetired | ModelUnavailable):
            raise
        return None  # another call: what is wrong with it says more


def call_of(
    *, caller: Caller, name: str, payload: Mapping[str, Any], headers: Mapping[str, Any]
) -> Call:
    """A call of the model `name`, or of the one it is switched to, checked and accepted by
    nobody yet. Raises ModelNotFound, ModelRetired, ModelUnavailable, InvalidRequest,
    InvalidInput."""
    try:
        way = route(name, payload, tenant_id=caller.tenant_id)
    except FoldlineError as error:
        _name_alternatives(error, caller, name, payload)
        raise
    made = submission(
        caller=caller,
        model=way.model,
        payload=payload,
        headers=headers,
        called=name,
        warnings=way.warnings,
    )
    return Call(model=way.model, submission=made)


def payload_digest(called: str, payload: Mapping[str, Any]) -> str:
    """What an idempotency key stands for: the model called, wherever the call went."""
    return digest([called, payload])


def _name_alternatives(
    error: FoldlineError, caller: Caller, name: str, payload: Mapping[str, Any]
) -> None:
    name_alternatives(error, model=name, inputs=payload.get("inputs"), tenant_id=caller.tenant_id)


def submission(
    *,
    caller: Caller,
    model: LiveModel,
    payload: Mapping[str, Any],
    headers: Mapping[str, Any],
    called: str = "",
    warnings: Sequence[Mapping[str, Any]] = (),
) -> Submission:
    """The call as `jobs.services.submit` takes it. `called`: the name its caller used, where the
    call went to another model. Raises InvalidRequest, InvalidInput."""
    body = submit_body(payload)
    key = idempotency_key(headers)
    findings = model.compiled.findings(body.inputs)
    if findings:
        raise _refusal(findings)
    if body.next:
        _check_next(body.next)
    normalized = model.compiled.normalized(body.inputs)
    files = _files(caller, model, normalized)
    normalized, tidied = preflighted(model, normalized, files, tenant_id=caller.tenant_id)
    seed, origin = _seed(body, model)
    webhook = None if body.webhook is None else resolve(caller.tenant_id, body.webhook)
    size = len(orjson.dumps(normalized))
    return Submission(
        tenant_id=caller.tenant_id,
        model_id=model.model_id,
        revision_id=model.revision_id,
        queue=tickets.queue_name(model.name, number=model.number),
        inputs=body.inputs,
        normalized_input=normalized,
        seed=seed,
        seed_origin=origin,
        fingerprint=model.fingerprint(normalized, files, tenant_id=caller.tenant_id, seed=seed),
        # Compared only where a key names the call.
        payload_digest=payload_digest(called or model.name, payload) if key else "",
        priority=body.priority,
        session=body.session,
        model=model.name,
        limits=limits_of(caller.tenant_id, model_id=model.model_id),
        input_size=size,
        estimate_gpu_s=estimate_gpu_s(model.revision_id, size=size),
        shared=not body.no_cache,
        deadline_s=body.deadline_s,
        start_within_s=body.start_within_s,
        idempotency_key=key,
        traceparent=traceparent(headers),
        warnings=[*warnings, *tidied],
        artifacts=[(place, artifact) for place, artifact, _ in files],
        next_models=body.next,
        notify=webhook is not None or hears_all(caller.tenant_id),
        webhook=webhook,
    )


def _refusal(findings: list[dict[str, str]]) -> FoldlineError:
    """An unknown field is a malformed request wherever it stands; the rest is wrong input."""
    unknown = any(found["code"] == "unknown_field" for found in findings)
    return InvalidRequest(errors=findings) if unknown else InvalidInput(errors=findings)


def _check_next(names: Sequence[str]) -> None:
    live = shelf().live
    unknown = [
        finding(pointer("next", place), "unknown_model", got=name, expected="a model in the list")
        for place, name in enumerate(names)
        if name not in live
    ]
    if unknown:
        raise InvalidInput("`next` names models that cannot be called.", errors=unknown)


def _files(
    caller: Caller, model: LiveModel, inputs: Mapping[str, Any]
) -> list[tuple[str, UUID, str]]:
    """The artifacts the inputs name: (pointer into the inputs, id, SHA-256)."""
    named = model.compiled.artifacts(inputs)
    if not named:
        return []
    ids = {place: _uuid(name) for place, name in named}
    hashes = hashes_of(
        tenant_id=caller.tenant_id, artifact_ids={i for i in ids.values() if i is not None}
    )
    missing = [
        _missing(place, name)
        for place, name in named
        if ids[place] not in hashes or len(place) > POINTER_CHARACTERS
    ]
    if missing:
        raise InvalidInput("The inputs name files that are not there.", errors=missing)
    return [(place, i, hashes[i]) for place, i in ids.items() if i is not None]


def _missing(place: str, name: str) -> dict[str, str]:
    code, hint = "artifact_not_found", "Upload the file at /v1/artifacts first."
    if _PATH.search(name):
        code, hint = "path_not_allowed", f"No path or address is ever opened. {hint}"
    return finding(
        f"/inputs{place}", code, got=name, expected="the id of an artifact of yours", hint=hint
    )


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _seed(body: SubmitBody, model: LiveModel) -> tuple[int, str]:
    if body.seed is not None:
        return body.seed, "caller"
    if model.seed_default == "random":
        return secrets.randbits(63), "random"
    return DEFAULT_SEED, "default"

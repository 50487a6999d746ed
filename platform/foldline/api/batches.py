"""From one request to many calls: what the whole must be, and what each item is by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from foldline.api.envelope import (
    MOST_DEADLINE_S,
    PRINTABLE,
    SubmitBody,
    checked,
    is_key,
    traceparent,
)
from foldline.api.preflight import in_one_time
from foldline.api.submit import Call, call_or_known
from foldline.errors import (
    FoldlineError,
    InvalidRequest,
    ModelNotFound,
    ModelRetired,
    Storage,
    finding,
)
from foldline.jobs.batches import MOST_JOBS, Outcome
from foldline.tenants.services import Caller


class BatchItem(SubmitBody):
    """A call of a model, as a submit's body, and what its address and header would say."""

    model_config = ConfigDict(json_schema_extra={"examples": []})

    model: str = Field(description="The model's name.")
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=255,
        description="As the header of a single submit: 1 to 255 printable ASCII characters.",
    )


class BatchBody(BaseModel):
    """Many calls. What stands beside `jobs` holds for every item that does not say it itself."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={
            "examples": [
                {
                    "session": "design-round-1",
                    "priority": "batch",
                    "jobs": [
                        {
                            "model": "flash_abb",
                            "inputs": {"heavy": "EVQLLESGGEVKKPGASVKVSCRASGYTFRNYGLTWVRQAPG"},
                            "idempotency_key": "design-1",
                        },
                        {
                            "model": "flash_abb",
                            "inputs": {"heavy": "EVQLVESGGGLVQPGGSLRLSCAASGFTFSSYAMSWVRQAPG"},
                            "priority": "interactive",
                        },
                    ],
                }
            ]
        },
    )

    # Described here, and looked at one by one: a broken item does not sink the rest.
    jobs: list[SkipValidation[BatchItem]] = Field(
        min_length=1, max_length=MOST_JOBS, description="Of any models."
    )
    priority: Literal["interactive", "batch"] = "interactive"
    session: str = Field(default="", max_length=120, pattern=PRINTABLE)
    deadline_s: float | None = Field(default=None, gt=0, le=MOST_DEADLINE_S)
    start_within_s: float | None = Field(default=None, gt=0, le=MOST_DEADLINE_S)
    no_cache: bool = False


PREFLIGHTS_OF_ONE = 3
"""All items together have the time of so many single calls for what plugins say of them."""
_DEFAULTS = tuple(name for name in BatchBody.model_fields if name != "jobs")


Item = Call | Outcome
"""A call that can be submitted, a job that its key named before, or why it is neither."""


def items_of(body: BatchBody, *, caller: Caller, headers: Mapping[str, Any]) -> Sequence[Item]:
    """What each item is; the pointers of errors lead into the body of the whole. Raises Storage."""
    defaults = {name: getattr(body, name) for name in _DEFAULTS if name in body.model_fields_set}
    trace = traceparent(headers)
    items: list[Item] = []
    with in_one_time(PREFLIGHTS_OF_ONE * settings.PREFLIGHT_S):
        for index, item in enumerate(body.jobs):
            try:
                items.append(_item(item, defaults, caller=caller, trace=trace))
            except Storage:
                raise  # it is no fault of the item, and over in a moment: the whole is sent again
            except FoldlineError as error:
                error.errors = [
                    {**found, "pointer": f"/jobs/{index}{found['pointer']}"}
                    for found in error.errors
                ]
                items.append(error)
    return items


def _item(item: Any, defaults: Mapping[str, Any], *, caller: Caller, trace: str) -> Item:
    if not isinstance(item, dict):
        raise InvalidRequest(errors=[finding("", "wrong_type", got=item, expected="an object")])
    payload = {**defaults, **item}
    headers = {"HTTP_TRACEPARENT": trace}
    if (key := payload.pop("idempotency_key", None)) is not None:
        headers["HTTP_IDEMPOTENCY_KEY"] = _key(key)
    name = _name(payload.pop("model", None), given="model" in item)
    try:
        return call_or_known(caller=caller, name=name, payload=payload, headers=headers)
    except (ModelNotFound, ModelRetired) as error:
        error.errors = [finding("/model", "unknown_model", got=name)]
        raise


def _key(key: object) -> str:
    if isinstance(key, str) and is_key(key):
        return key
    expected = "1 to 255 printable ASCII characters"
    raise InvalidRequest(
        errors=[finding("/idempotency_key", "invalid", got=key, expected=expected)]
    )


def _name(name: object, *, given: bool) -> str:
    if isinstance(name, str):
        return name
    code, got = ("wrong_type", name) if given else ("missing_field", "")
    raise InvalidRequest(errors=[finding("/model", code, got=got, expected="a model's name")])


def read_batch(payload: Mapping[str, Any]) -> BatchBody:
    """The checked body; its items are not looked at. Raises InvalidRequest."""
    return checked(BatchBody, payload)

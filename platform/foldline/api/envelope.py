"""What surrounds the inputs of a submit: its body's other fields, and its headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from foldline.catalog.tool_schemas import MOST_NEXT
from foldline.errors import InvalidRequest, finding, pointer

Body = TypeVar("Body", bound=BaseModel)

MOST_SEED = 2**63 - 1
MOST_DEADLINE_S = 7 * 24 * 3600

_IDEMPOTENCY_KEY = re.compile(r"[\x20-\x7e]{1,255}")
_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")

# pydantic's name: our code, and what was expected (filled from pydantic's context).
_SAID = {
    "extra_forbidden": ("unknown_field", ""),
    "missing": ("missing_field", ""),
    "int_type": ("wrong_type", "a whole number"),
    "float_type": ("wrong_type", "a number"),
    "string_type": ("wrong_type", "a text"),
    "list_type": ("wrong_type", "a list"),
    "too_short": ("too_few_items", "at least {min_length} items"),
    "too_long": ("too_many_items", "at most {max_length} items"),
    "dict_type": ("wrong_type", "an object"),
    "bool_type": ("wrong_type", "true or false"),
    "literal_error": ("not_allowed", "{expected}"),
    "greater_than": ("too_small", "more than {gt}"),
    "greater_than_equal": ("too_small", "at least {ge}"),
    "less_than_equal": ("too_large", "at most {le}"),
    "string_too_long": ("too_long", "at most {max_length} characters"),
    "string_pattern_mismatch": ("pattern_mismatch", "printable characters"),
}


PRINTABLE = r"^[^\p{C}]*$"


class SubmitBody(BaseModel):
    """A call of a model."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={
            "examples": [
                {
                    "inputs": {
                        "heavy": "EVQLLESGGEVKKPGASVKVSCRASGYTFRNYGLTWVRQAPGQGLEWMGWISAYNGNTNYAQ"
                        "KFQGRVTLTTDTSTSTAYMELRSLRSDDTAVYFCARDVPGHGAAFMDVWGTGTTVTVSS",
                        "light": "DIQLTQSPLSLPVTLGQPASISCRSSQSLEASDTNIYLSWFQQRPGQSPRRLIYKISNRDSG"
                        "VPDRFSGSGSGTHFTLRISRVEADDVAVYYCMQGTHWPPAFGQGTKVDIK",
                    },
                    "seed": 7,
                    "session": "design-round-1",
                    "deadline_s": 600,
                }
            ]
        },
    )

    inputs: dict[str, Any] = Field(description="What the model's `input_schema` asks for.")
    seed: int | None = Field(
        default=None,
        ge=0,
        le=MOST_SEED,
        description="Same inputs and seed, same answer. Without one the model's rule applies:"
        " `fixed` gives the same answer each time, `random` draws a new seed.",
    )
    priority: Literal["interactive", "batch"] = Field(
        default="interactive", description="`batch` yields to jobs somebody is waiting for."
    )
    session: str = Field(
        default="",
        max_length=120,
        pattern=PRINTABLE,
        description="A name of your own that groups jobs.",
    )
    deadline_s: float | None = Field(
        default=None,
        gt=0,
        le=MOST_DEADLINE_S,
        description="Seconds from now after which the result is worthless.",
    )
    start_within_s: float | None = Field(
        default=None,
        gt=0,
        le=MOST_DEADLINE_S,
        description="Seconds from now in which the job must have started; at most `deadline_s`.",
    )
    no_cache: bool = Field(
        default=False,
        description="Compute it anew, even if an equal call is running or was answered before.",
    )
    next: list[str] = Field(
        default=[],
        max_length=MOST_NEXT,
        description="Models you mean to call with the result. They may be loaded ahead of time;"
        " nothing else follows from it.",
    )
    on_unavailable: Literal["fail", "suggest", "switch"] | None = Field(
        default=None,
        description="What to do when the model is retired, paused, keeps crashing or has no"
        " workers: `fail` refuses the call at once, `suggest` as well and names alternatives,"
        " `switch` gives it to the first alternative that takes it and says so in `warnings`."
        " Without it the call waits.",
    )
    webhook: str | None = Field(
        default=None,
        max_length=1000,
        description="The id or the URL of a webhook endpoint of yours that is told of the end.",
    )


def checked(kind: type[Body], payload: Mapping[str, Any]) -> Body:
    """A body of this kind. Raises InvalidRequest with a pointer to each field that is wrong."""
    try:
        return kind.model_validate(payload)
    except ValidationError as error:
        found = [_said(entry, kind) for entry in error.errors()[:20]]
        raise InvalidRequest(errors=found) from None


def submit_body(payload: Mapping[str, Any]) -> SubmitBody:
    """The checked body. Raises InvalidRequest with a pointer to each field that is wrong."""
    body = checked(SubmitBody, payload)
    if body.start_within_s and body.deadline_s and body.start_within_s > body.deadline_s:
        raise InvalidRequest(
            errors=[
                finding(
                    "/start_within_s",
                    "too_large",
                    got=body.start_within_s,
                    expected=f"at most deadline_s, {body.deadline_s:g}",
                )
            ]
        )
    return body


def idempotency_key(headers: Mapping[str, Any]) -> str:
    """The header `Idempotency-Key`, or "" without one; a quoted key is its content. Raises
    InvalidRequest."""
    key = headers.get("HTTP_IDEMPOTENCY_KEY")
    if key is None:
        return ""
    if len(key) > 1 and key[0] == key[-1] == '"':  # as the draft writes it: a string, quoted
        key = key[1:-1]
    if not is_key(key):
        raise InvalidRequest(
            "The header Idempotency-Key cannot be used.",
            errors=[
                finding(
                    "",
                    "invalid_header",
                    got=key,
                    expected="Idempotency-Key of 1 to 255 printable ASCII characters",
                )
            ],
        )
    return str(key)


def is_key(text: str) -> bool:
    """Whether it can name a call."""
    return bool(_IDEMPOTENCY_KEY.fullmatch(text) and text.strip())


def traceparent(headers: Mapping[str, Any]) -> str:
    """The W3C trace context of the request; "" when there is none or it is garbled."""
    given = headers.get("HTTP_TRACEPARENT", "")
    return given if _TRACEPARENT.fullmatch(given) else ""


def _said(entry: Any, kind: type[BaseModel]) -> dict[str, str]:
    place = pointer(*entry["loc"])
    code, expected = _SAID.get(entry["type"], ("invalid", entry["msg"]))
    told = expected.format_map(entry.get("ctx", {}))
    if code == "unknown_field":
        told = f"one of {', '.join(kind.model_fields)}"
    got = "" if code == "missing_field" else entry["input"]
    return finding(place, code, got=got, expected=told)

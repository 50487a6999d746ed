"""The OpenAPI 3.1 document, generated from the views and the models that describe them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast, get_args

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from foldline.api.answers import Problem, States

F = TypeVar("F", bound=Callable[..., Any])


def text(pattern: str, *, least: int, most: int) -> dict[str, Any]:
    """The schema of a text in a URL or a header."""
    return {"type": "string", "pattern": pattern, "minLength": least, "maxLength": most}


_ANY_TEXT = {"type": "string", "pattern": r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"}

_KEY = text(r"^[ -~]*[!-~][ -~]*$", least=1, most=255)

IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    type=_KEY,
    location=OpenApiParameter.HEADER,
    description="1 to 255 printable ASCII characters. The same key and payload give the same"
    " job; another payload is refused.",
)
BATCH_KEY = OpenApiParameter(
    "Idempotency-Key",
    type=_KEY,
    location=OpenApiParameter.HEADER,
    description="1 to 255 printable ASCII characters, for the whole batch. The same key and payload"
    " give the same batch; another payload is refused.",
)
BATCH_WAIT = (
    OpenApiParameter(
        "wait",
        enum=["any", "all"],
        description="Answer once any of the open jobs has ended, or all have, or the time is over.",
    ),
    OpenApiParameter(
        "timeout_s",
        {"type": "integer", "minimum": 1, "maximum": 50},
        description="With `wait`: seconds to wait at most, 50 without it.",
    ),
)
FILE_NAME = OpenApiParameter(
    "name",
    type={"type": "string", "minLength": 1, "maxLength": 128},
    description="A name for saving the file: 1 to 128 printable characters without / and \\.",
)
_SESSION = OpenApiParameter("session", _ANY_TEXT, description="Only jobs of this session.")
_MODEL = OpenApiParameter("model", _ANY_TEXT, description="Only jobs of this model.")
TOOL_FORMAT = OpenApiParameter(
    "format", enum=["openai", "anthropic", "mcp"], required=True, description="Whose words."
)
WAIT = OpenApiParameter(
    "wait",
    {"type": "integer", "minimum": 1, "maximum": 50},
    description="Seconds to wait at most for the job to change.",
)
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    location=OpenApiParameter.HEADER,
    description="The `ETag` of the answer you have. Unchanged is 304; with `wait`, only when the"
    " time is over.",
)
ETAG = OpenApiParameter(
    "ETag",
    location=OpenApiParameter.HEADER,
    response=(200, 304),
    description="Changes when the job does.",
)
APPLIED = OpenApiParameter(
    "Preference-Applied",
    location=OpenApiParameter.HEADER,
    response=(200, 202),
    description="`wait=n`, when the answer waited.",
)
PREFER = OpenApiParameter(
    "Prefer",
    location=OpenApiParameter.HEADER,
    description="`wait=n` (RFC 7240): up to n seconds, at most 50, for the end of the job. When it"
    " comes in time the answer is that of `GET …/result`, else 202. `Preference-Applied` tells that"
    " it was waited for.",
)
BATCH_PREFER = OpenApiParameter(
    "Prefer",
    location=OpenApiParameter.HEADER,
    description="`wait=n` (RFC 7240): up to n seconds, at most 50, for the ends of all jobs. When"
    " they come in time the answer is 200 with the batch as it is then, else 202 with it."
    " `Preference-Applied` tells that they were waited for.",
)
LAST_EVENT_ID = OpenApiParameter(
    "Last-Event-ID",
    location=OpenApiParameter.HEADER,
    description="The `id` of the last event you have; the stream goes on after it.",
)
UNCHANGED = OpenApiResponse(description="Nothing has changed since the `ETag` you have.")
PAGE = (
    OpenApiParameter(
        "cursor",
        text("^[A-Za-z0-9_-]{21}[AQgw]$", least=22, most=22),
        description="`next_cursor` of the page before.",
    ),
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": 100, "default": 50},
        description="1 to 100; 50 without it.",
    ),
)
_JOB_ID = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
JOB_IDS = rf"{_JOB_ID}(,{_JOB_ID}){{0,99}}"
JOB_FILTERS = (
    OpenApiParameter(
        "ids",
        text(f"^{JOB_IDS}$", least=36, most=3699),
        description="Only these jobs: 1 to 100 ids, separated by commas. Ids of no job of yours"
        " are passed over.",
    ),
    _SESSION,
    OpenApiParameter("state", enum=list(get_args(States)), description="Only jobs in this state."),
    _MODEL,
    *PAGE,
)
USAGE_FILTERS = (
    OpenApiParameter(
        "from",
        OpenApiTypes.DATE,
        description="The first day (UTC); without it the first of the last day's month.",
    ),
    OpenApiParameter(
        "to", OpenApiTypes.DATE, description="The last day, which counts, too; without it today."
    ),
    _SESSION,
    _MODEL,
)
# Any call can meet these.
_ALWAYS = (500, 503)
_WITH_KEY = (400, 401, 403, 429)


def describe(
    summary: str,
    answers: Mapping[Any, Any],
    *,
    request: Any = None,
    parameters: Sequence[OpenApiParameter] = (),
    errors: Sequence[int] = (),
    detail: str = "",
    public: bool = False,
    name: str | None = None,
) -> Callable[[F], F]:
    """Say what a view's method does, for the document. Every error is a `Problem`. `name`: of the
    operation, where its view has two."""
    problems = {*errors, *_ALWAYS, *(() if public else _WITH_KEY)}
    return extend_schema(
        summary=summary,
        description=detail or f"{summary}.",
        operation_id=name,
        request=request,
        parameters=list(parameters),
        auth=[] if public else None,
        responses={
            **answers,
            **{
                (status, "application/problem+json"): OpenApiResponse(Problem, "A problem.")
                for status in sorted(problems)
            },
        },
    )


def document() -> dict[str, Any]:
    """The whole document, as JSON-ready values."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]  # drf-spectacular
    return cast("dict[str, Any]", generator.get_schema(request=None, public=True))  # type: ignore[no-untyped-call]  # drf-spectacular


class Operations(AutoSchema):
    """Names operations by their view: `SubmitView.post` is `submit`, `JobView.get` `job`."""

    def get_operation_id(self) -> str:
        return type(self.view).__name__.removesuffix("View").lower()

    def get_tags(self) -> list[str]:
        return [type(self.view).__module__.rpartition(".")[2]]


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular
    target_class = "foldline.api.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "fl_live_…"}

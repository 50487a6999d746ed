"""`manage.py errors`: the catalogue of errors as the page docs/errors.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import BaseCommand

from foldline.api.views.errors import kinds
from foldline.errors import FoldlineError
from foldline.findings import OF_MODELS, OF_REQUESTS

HEAD = """\
# Errors

Made by `manage.py errors > docs/errors.md` from `foldline/errors.py` and `foldline/findings.py`.
As JSON, without a key: `GET /v1/errors`, and `GET /v1/errors/{code}`, where a problem's `type`
points.

Every refusal is an `application/problem+json` (RFC 9457), and the `error` of a failed job has the
same members: `type`, `title`, `status`, `detail`, `code`, `retryable` (whether the very same may
work later), `fault` (`caller`, `platform` or `model`), `suggested_action`; where they apply
`retry_after_s`, `errors` (what is wrong, and where), `limit`, `alternatives` ([which
models](alternatives.md) may serve the call). A refused request also has its `request_id`.

## Codes
"""
FINDINGS = """
## Codes in `errors`

An entry is `{pointer, code, got, expected, hint}`; `pointer` is a JSON pointer (RFC 6901) into the
body, or `?name` for a parameter of the query.

### Of requests
"""
MODELS = """
### Of the built-in models

A model from elsewhere may use codes of its own; `hint` says what to do.
"""


class Command(BaseCommand):
    help = "Print the catalogue of errors as Markdown."

    def handle(self, **_options: Any) -> None:
        self.stdout.write(page(), ending="")


def page() -> str:
    """The whole page docs/errors.md."""
    requests, models = _findings(OF_REQUESTS), _findings(OF_MODELS)
    return "\n".join([HEAD, *_errors(), FINDINGS, *requests, MODELS, *models, ""])


def _errors() -> Iterator[str]:
    yield "| code | status | fault | retry | alternatives | what has happened, and what to do |"
    yield "|---|---|---|---|---|---|"
    yield from map(_row, kinds())


def _row(kind: type[FoldlineError]) -> str:
    retry, other = ("yes" if flag else "" for flag in (kind.retryable, kind.elsewhere))
    told = f"{kind.description()} *{kind.suggested_action}*"
    return f"| `{kind.code}` | {kind.status} | {kind.fault} | {retry} | {other} | {told} |"


def _findings(codes: Mapping[str, str]) -> Iterator[str]:
    yield "| code | what is wrong |"
    yield "|---|---|"
    yield from (f"| `{code}` | {told} |" for code, told in sorted(codes.items()))

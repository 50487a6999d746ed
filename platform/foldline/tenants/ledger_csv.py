"""Lines of the ledger as a file for a spreadsheet, page by page."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from datetime import UTC, date

from django.conf import settings
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from foldline.tenants.models import LedgerLine

PAGE = 1000
COLUMNS = (
    *("at", "kind", "tenant", "tenant_id", "model", "session", "job_id", "attempt", "worker"),
    *("gpu_seconds", "cost", "currency"),
)
# What makes a spreadsheet take a cell for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class _Line:
    """A file that gives back what is written to it."""

    def write(self, text: str) -> str:
        return text


def csv_response(lines: QuerySet[LedgerLine], *, day: date) -> StreamingHttpResponse:
    """A download that holds one page of lines in memory at a time."""
    return StreamingHttpResponse(
        csv_rows(lines),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="foldline-ledger-{day}.csv"'},
    )


def csv_rows(lines: QuerySet[LedgerLine]) -> Iterator[str]:
    """The heading and the lines, oldest first."""
    writer = csv.writer(_Line())
    yield writer.writerow(COLUMNS)
    for page in _pages(lines.order_by("id")):
        yield "".join(writer.writerow(_cells(line)) for line in page)


def _pages(lines: QuerySet[LedgerLine]) -> Iterator[Sequence[LedgerLine]]:
    """By their ids: behind PgBouncer no cursor of the server outlives a transaction."""
    page = list(lines[:PAGE])
    while page:
        yield page
        page = list(lines.filter(id__gt=page[-1].id)[:PAGE])


def _cells(line: LedgerLine) -> list[str]:
    texts = (line.tenant, line.tenant_id or "", line.model, line.session, line.job_id or "")
    return [
        line.at.astimezone(UTC).isoformat(),
        line.kind,
        *(_inert(str(text)) for text in texts),
        "" if line.attempt is None else str(line.attempt),
        _inert(line.worker),
        f"{line.gpu_seconds:.6f}",
        f"{line.cost:.6f}",
        settings.CURRENCY,
    ]


def _inert(text: str) -> str:
    """A text that no spreadsheet computes: what would begin a formula gets a quote before it."""
    return f"'{text}" if text.startswith(FORMULA) else text

"""Rows of many jobs past the ORM, alike from both databases.

What is asked for everybody who waits, again and again, is asked like this: putting a query
together costs Django more than running it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
from django.db import connection


def rows_of(jobs: Collection[UUID], statement: str) -> Iterator[tuple[Any, ...]]:
    """Run `statement`, whose `{these}` stands for the jobs; its first column is a job's id.

    JSON comes as text, from both. SQLite has no UUIDs, and times without a zone: read them by
    `name` and `moment`.
    """
    postgres = connection.vendor == "postgresql"
    these = "= any(%s)" if postgres else "in (select value from json_each(%s))"
    ids: Any = list(jobs) if postgres else orjson.dumps([job.hex for job in jobs]).decode()
    with connection.cursor() as cursor:
        cursor.execute(statement.format(these=these), [ids])
        for job_id, *rest in cursor:
            yield name(job_id), *rest


def name(kept: UUID | str) -> UUID:
    return kept if isinstance(kept, UUID) else UUID(kept)


def moment(kept: datetime) -> datetime:
    return kept if kept.tzinfo is not None else kept.replace(tzinfo=UTC)

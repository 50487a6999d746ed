"""The ledger's one writer: a line for everything a card did, or was spared.

A line is never changed. What turns out otherwise is corrected by further lines, so that a sum
is right from the correction on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from uuid import UUID

from django.db import connection
from django.db.models import Max, Sum

from foldline.clock import day_of
from foldline.tenants.models import LedgerLine, Tenant

Kind = LedgerLine.Kind

USED = frozenset({Kind.COMPUTE, Kind.WASTED})
"""What a tenant's job held of a card."""
SAVED = (Kind.CACHE, Kind.COALESCED, Kind.EXPIRED, Kind.CANCELLED)
"""What a tenant's job would have held."""
MILLIONTH = Decimal("0.000001")


def cost_of(gpu_seconds: float, *, price: Decimal) -> Decimal:
    """Seconds times price, rounded half to even to a millionth of the currency."""
    return (Decimal(gpu_seconds) * price).quantize(MILLIONTH, rounding=ROUND_HALF_EVEN)


def post(lines: Sequence[LedgerLine]) -> None:
    """Write lines, and raise the tenants' daily use by what was used.

    Belongs into the transaction of what the lines tell of. A line counts to the UTC day of
    its `at`, which is the database's time.
    """
    _insert(lines)
    used: dict[tuple[UUID, date, str], float] = defaultdict(float)
    for line in lines:
        if line.kind in USED and line.tenant_id is not None:
            used[line.tenant_id, day_of(line.at), line.model] += line.gpu_seconds
    for (tenant_id, day, model), gpu_seconds in used.items():
        _raise_daily_use(tenant_id, day, model, gpu_seconds)


def lines_of_attempt(job_id: UUID, *, number: int, worker: str) -> Sequence[LedgerLine]:
    """What was posted of one attempt."""
    # By the worker, because that is what an index knows.
    return list(LedgerLine.objects.filter(worker=worker, job_id=job_id, attempt=number))


@dataclass(frozen=True, kw_only=True)
class WorkerLines:
    """What the ledger says of one worker; `last_used` is when its latest attempt was closed."""

    gpu_seconds: Mapping[str, float]
    last_used: datetime | None = None

    @property
    def used(self) -> float:
        return sum(seconds for kind, seconds in self.gpu_seconds.items() if kind in USED)


def lines_of_workers(names: Sequence[str]) -> Mapping[str, WorkerLines]:
    """By the workers' names; one without lines has sums of nothing."""
    rows: dict[str, list[tuple[str, float, datetime]]] = {name: [] for name in names}
    lines = LedgerLine.objects.filter(worker__in=names).order_by()
    summed = lines.values_list("worker", "kind").annotate(Sum("gpu_seconds"), Max("at"))
    for worker, kind, gpu_seconds, at in summed:
        rows[worker].append((kind, gpu_seconds, at))
    return {
        name: WorkerLines(
            gpu_seconds={kind: gpu_seconds for kind, gpu_seconds, _ in found},
            last_used=max((at for kind, _, at in found if kind in USED), default=None),
        )
        for name, found in rows.items()
    }


# Cursors: every attempt ends here, and the ORM's insert costs a hundred microseconds more.
_COLUMNS = [(column.attname, column) for column in LedgerLine._meta.concrete_fields]
_INSERT = f"insert into tenants_ledgerline ({', '.join(name for name, _ in _COLUMNS)}) values "  # noqa: S608 - names of this module only
_ROW = f"({', '.join(['%s'] * len(_COLUMNS))})"


def _insert(lines: Sequence[LedgerLine]) -> None:
    values = [
        column.get_db_prep_save(getattr(line, name), connection)
        for line in lines
        for name, column in _COLUMNS
    ]
    if values:
        with connection.cursor() as cursor:
            cursor.execute(_INSERT + ", ".join([_ROW] * len(lines)), values)


_RAISE = """
insert into tenants_dailyuse (tenant_id, day, model, gpu_seconds) values (%s, %s, %s, %s)
on conflict (tenant_id, day, model)
do update set gpu_seconds = tenants_dailyuse.gpu_seconds + excluded.gpu_seconds
"""


def _raise_daily_use(tenant_id: UUID, day: date, model: str, gpu_seconds: float) -> None:
    key = Tenant._meta.pk.get_db_prep_value(tenant_id, connection)
    on = connection.ops.adapt_datefield_value(day)
    with connection.cursor() as cursor:
        cursor.execute(_RAISE, [key, on, model, gpu_seconds])

"""What the ledger says: of one tenant for its own eyes, and of all for whoever pays the cards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from foldline.clock import midnight
from foldline.tenants.ledger import MILLIONTH, SAVED, USED
from foldline.tenants.models import DailyUse, LedgerLine

MOST_SESSIONS = 100


@dataclass(frozen=True, kw_only=True)
class Amount:
    """A sum of lines."""

    gpu_seconds: float = 0.0
    cost: Decimal = Decimal(0)
    lines: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            gpu_seconds=self.gpu_seconds + other.gpu_seconds,
            cost=self.cost + other.cost,
            lines=self.lines + other.lines,
        )


@dataclass(frozen=True, kw_only=True)
class Group:
    """What the jobs of one model, or of one session, used and saved, by kind."""

    name: str
    kinds: Mapping[str, Amount] = field(default_factory=dict)

    def sum(self, kinds: Iterable[str]) -> Amount:
        return sum((self.kinds.get(kind, Amount()) for kind in kinds), Amount())

    @property
    def used(self) -> Amount:
        return self.sum(USED)

    @property
    def saved(self) -> Amount:
        return self.sum(SAVED)


@dataclass(frozen=True, kw_only=True)
class Session:
    """One session's sums."""

    name: str
    used: Amount
    saved: Amount


@dataclass(frozen=True, kw_only=True)
class UsageReport:
    """A tenant's use in some days: by model, and by session, those that used most first."""

    models: Sequence[Group]
    sessions: Sequence[Session]
    other_sessions: Session
    """What is left of all sessions beside those that are listed."""

    @property
    def whole(self) -> Group:
        kinds = (*USED, *SAVED)
        return Group(
            name="",
            kinds={
                kind: sum((group.sum([kind]) for group in self.models), Amount()) for kind in kinds
            },
        )


def usage_report(
    tenant_id: UUID,
    *,
    first: date,
    last: date,
    session: str | None = None,
    model: str | None = None,
) -> UsageReport:
    """A tenant's lines from the day `first` to the day `last`, both whole (UTC). Two queries."""
    lines = within(LedgerLine.objects.filter(tenant_id=tenant_id), first=first, last=last)
    if session is not None:
        lines = lines.filter(session=session)
    if model is not None:
        lines = lines.filter(model=model)
    models = _by_model(lines)
    sessions = _by_session(lines)
    report = UsageReport(models=models, sessions=sessions, other_sessions=_NOTHING)
    return replace(report, other_sessions=_rest(report.whole, sessions))


def within(lines: QuerySet[LedgerLine], *, first: date, last: date) -> QuerySet[LedgerLine]:
    """The lines of these days, both whole (UTC)."""
    return lines.filter(at__gte=midnight(first), at__lt=midnight(last + timedelta(days=1)))


@dataclass(frozen=True, kw_only=True)
class Spent:
    """GPU-seconds a tenant used, by model: on one UTC day, and in its month up to then."""

    day: Mapping[str, float]
    month: Mapping[str, float]


def spent(tenant_ids: Collection[UUID], *, today: date) -> Mapping[UUID, Spent]:
    """What counts against the budgets of each of these tenants. Reads a row per tenant, model
    and day of the month; a submit has `jobs.counting` do the same in its own statement."""
    day: dict[UUID, dict[str, float]] = {tenant_id: {} for tenant_id in tenant_ids}
    month: dict[UUID, defaultdict[str, float]] = {each: defaultdict(float) for each in tenant_ids}
    use = DailyUse.objects.filter(
        tenant_id__in=tenant_ids, day__gte=today.replace(day=1), day__lte=today
    )
    columns = ("tenant_id", "model", "day", "gpu_seconds")
    for tenant_id, model, on, gpu_seconds in use.values_list(*columns):
        month[tenant_id][model] += gpu_seconds
        if on == today:
            day[tenant_id][model] = gpu_seconds
    return {each: Spent(day=day[each], month=month[each]) for each in tenant_ids}


def by_kind(lines: QuerySet[LedgerLine]) -> Mapping[str, Amount]:
    """Sums of some lines by their kind."""
    return {row["kind"]: _amount(row) for row in _summed(lines.order_by().values("kind"))}


def by_model_and_day(*, first: date, last: date) -> Mapping[tuple[str, date], Mapping[str, Amount]]:
    """Sums of everybody's lines by model, day and kind."""
    lines = within(LedgerLine.objects.order_by(), first=first, last=last)
    dated = lines.annotate(day=TruncDate("at", tzinfo=UTC)).values("model", "day", "kind")
    found: dict[tuple[str, date], dict[str, Amount]] = {}
    for row in _summed(dated):
        found.setdefault((row["model"], row["day"]), {})[row["kind"]] = _amount(row)
    return found


def _amount(row: Mapping[str, Any], *, prefix: str = "") -> Amount:
    # SQLite sums decimals as binary fractions; the lines themselves are millionths.
    cost = Decimal(row[f"{prefix}money"] or 0).quantize(MILLIONTH)
    seconds = float(row[f"{prefix}seconds"] or 0.0)
    return Amount(gpu_seconds=seconds, cost=cost, lines=row[f"{prefix}lines"])


def _summed(grouped: Any) -> Any:
    return grouped.annotate(seconds=Sum("gpu_seconds"), money=Sum("cost"), lines=Count("id"))


def _by_model(lines: QuerySet[LedgerLine]) -> list[Group]:
    kinds: dict[str, dict[str, Amount]] = {}
    for row in _summed(lines.order_by().values("model", "kind")):
        kinds.setdefault(row["model"], {})[row["kind"]] = _amount(row)
    groups = [Group(name=name, kinds=found) for name, found in kinds.items()]
    return sorted(groups, key=lambda group: (-group.used.gpu_seconds, group.name))


def _by_session(lines: QuerySet[LedgerLine]) -> list[Session]:
    sums: dict[str, Any] = {}
    for prefix, kinds in (("used_", USED), ("saved_", SAVED)):
        only = Q(kind__in=kinds)
        sums[f"{prefix}seconds"] = Sum("gpu_seconds", filter=only, default=0.0)
        sums[f"{prefix}money"] = Sum("cost", filter=only)
        sums[f"{prefix}lines"] = Count("id", filter=only)
    rows: Any = lines.order_by().values("session").annotate(**sums)
    largest = rows.order_by("-used_seconds", "session")[:MOST_SESSIONS]
    return [
        Session(
            name=row["session"],
            used=_amount(row, prefix="used_"),
            saved=_amount(row, prefix="saved_"),
        )
        for row in largest
    ]


_NOTHING = Session(name="", used=Amount(), saved=Amount())


def _rest(whole: Group, listed: Sequence[Session]) -> Session:
    used = _without(whole.used, [session.used for session in listed])
    saved = _without(whole.saved, [session.saved for session in listed])
    return Session(name="", used=used, saved=saved)


def _without(all_of_it: Amount, parts: Sequence[Amount]) -> Amount:
    rest = sum(parts, Amount())
    lines = all_of_it.lines - rest.lines
    if not lines:
        return Amount()  # and no trace of rounding
    return Amount(
        gpu_seconds=all_of_it.gpu_seconds - rest.gpu_seconds,
        cost=all_of_it.cost - rest.cost,
        lines=lines,
    )

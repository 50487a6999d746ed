"""What a tenant used, saved and has left: the body of `GET /v1/usage`, and its parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings

from foldline.api.views.base import wrong_parameter
from foldline.catalog.selectors import names_of_models
from foldline.clock import midnight, next_month
from foldline.tenants.ledger import SAVED, Kind
from foldline.tenants.quotas import Allowance, Quotas
from foldline.tenants.usage import Amount, Group, Session, Spent, UsageReport

Body = dict[str, Any]

MOST_DAYS = 92
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_YEARS = range(2000, 3000)


@dataclass(frozen=True, kw_only=True)
class Period:
    """Whole UTC days; both count."""

    first: date
    last: date


def period(asked: Mapping[str, str], *, today: date) -> Period:
    """From the parameters `from` and `to`; without them this month. Raises InvalidRequest."""
    last = _day("to", asked["to"]) if "to" in asked else today
    first = _day("from", asked["from"]) if "from" in asked else last.replace(day=1)
    if first > last:
        raise wrong_parameter("from", "too_large", got=str(first), expected=f"at most {last}")
    if (last - first).days >= MOST_DAYS:
        got, expected = f"{first} to {last}", f"at most {MOST_DAYS} days"
        raise wrong_parameter("from", "too_small", got=got, expected=expected)
    return Period(first=first, last=last)


def _day(name: str, text: str) -> date:
    try:
        day = date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        day = None
    if day is None or day.year not in _YEARS:
        raise wrong_parameter(name, "invalid", got=text, expected="a date such as 2026-01-31")
    return day


def usage_body(
    report: UsageReport, days: Period, *, quotas: Quotas, spent: Spent, today: date
) -> Body:
    whole = report.whole
    return {
        "from": days.first,
        "to": days.last,
        "currency": settings.CURRENCY,
        "used": _used(whole),
        "saved": {
            **_amount(whole.saved),
            **{kind.value: _saved(whole.sum([kind])) for kind in SAVED},
        },
        "left": _left(quotas, spent, today=today),
        "models": [
            {"model": group.name, "used": _used(group), "saved": _amount(group.saved)}
            for group in report.models
        ],
        "sessions": [{"session": each.name, **_session(each)} for each in report.sessions],
        "other_sessions": _session(report.other_sessions),
    }


def _used(group: Group) -> Body:
    return {
        **_amount(group.used),
        "compute_gpu_seconds": _seconds(group.sum([Kind.COMPUTE]).gpu_seconds),
        "wasted_gpu_seconds": _seconds(group.sum([Kind.WASTED]).gpu_seconds),
    }


def _session(session: Session) -> Body:
    return {"used": _amount(session.used), "saved": _amount(session.saved)}


def _saved(amount: Amount) -> Body:
    return {**_amount(amount), "jobs": amount.lines}


def _amount(amount: Amount) -> Body:
    return {"gpu_seconds": _seconds(amount.gpu_seconds), "cost": decimal_text(amount.cost)}


def _seconds(seconds: float) -> float:
    """To the microsecond; binary sums end in noise."""
    return round(seconds, 6) + 0.0


def decimal_text(number: Decimal) -> str:
    """A price or a cost as JSON tells it: with all six decimals, never with an exponent."""
    return f"{number:.6f}"


def _left(quotas: Quotas, spent: Spent, *, today: date) -> Body:
    models = names_of_models(quotas.models)
    return {
        **_budgets(quotas.whole, spent, names=None, today=today),
        "models": [
            {"model": name, **_budgets(quotas.models[model_id][0], spent, names=name, today=today)}
            for model_id, name in sorted(models.items(), key=lambda pair: pair[1])
            if _has_budget(quotas, model_id)
        ],
    }


def _has_budget(quotas: Quotas, model_id: UUID) -> bool:
    allowance = quotas.models[model_id][0]
    return (allowance.gpu_seconds_day, allowance.gpu_seconds_month) != (None, None)


def _budgets(allowance: Allowance, spent: Spent, *, names: str | None, today: date) -> Body:
    """Of a day and of a month; null where no budget is set. `names` None: over all models."""
    tomorrow = today + timedelta(days=1)
    return {
        "day": _budget(allowance.gpu_seconds_day, _of(spent.day, names), until=tomorrow),
        "month": _budget(
            allowance.gpu_seconds_month, _of(spent.month, names), until=next_month(today)
        ),
    }


def _of(by_model: Mapping[str, float], name: str | None) -> float:
    return sum(by_model.values()) if name is None else by_model.get(name, 0.0)


def _budget(allowed: int | None, used: float, *, until: date) -> Body | None:
    if allowed is None:
        return None
    return {
        "allowed": allowed,
        "used": _seconds(used),
        "left": _seconds(max(0.0, allowed - used)),
        "until": midnight(until),
    }

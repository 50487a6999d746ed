"""`foldline models`, `jobs` and `usage`: what there is, as tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from foldline.client.cli import options as given
from foldline.client.cli.door import connected, show
from foldline.client.cli.words import clean, one_line, pretty
from foldline.client.shapes import Job, Model

WIDE = 200


def models(
    context: typer.Context,
    model: Annotated[str | None, typer.Argument(help="One model, with its inputs.")] = None,
    *,
    as_json: given.AsJson = False,
) -> None:
    """List the models, or show one: what it does and what it takes."""
    with connected(context, as_json=as_json) as foldline:
        if model is not None:
            found = foldline.model(model)
            show(one_line(found.body) if as_json else _about(found))
            return
        found_all = foldline.models()
        if as_json:
            show(one_line([each.body for each in found_all]))
        else:
            table(("MODEL", "LANE", "NOW", "WHAT IT DOES"), [_model_row(m) for m in found_all])


def jobs(
    context: typer.Context,
    *,
    session: given.Session = None,
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    model: Annotated[str | None, typer.Option(help="Only jobs of this model.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many.")] = 20,
    as_json: given.AsJson = False,
) -> None:
    """List your jobs, newest first."""
    filters = {"session": session, "state": state, "model": model, "limit": str(limit)}
    with connected(context, as_json=as_json) as foldline:
        page = foldline.jobs(**{name: value for name, value in filters.items() if value})
        if as_json:
            for job in page.jobs:
                show(one_line(job.body))
        else:
            table(("JOB", "MODEL", "STATE", "CREATED"), [_job_row(job) for job in page.jobs])


def usage(
    context: typer.Context,
    *,
    first: Annotated[str | None, typer.Option("--from", metavar="DAY", help="2026-03-01")] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="DAY", help="It counts, too.")] = None,
    session: given.Session = None,
    model: Annotated[str | None, typer.Option(help="Only of this model.")] = None,
    as_json: given.AsJson = False,
) -> None:
    """What you used, saved and have left. Without days: this month."""
    filters = {"from": first, "to": last, "session": session, "model": model}
    with connected(context, as_json=as_json) as foldline:
        told = foldline.usage(**{name: value for name, value in filters.items() if value})
        if as_json:
            show(one_line(told.body))
            return
        table(
            ("", "GPU-SECONDS", f"COST ({clean(told.currency)})"),
            list(_usage_rows(told.body)),
        )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on stdout; wide where no terminal cuts it. Nothing in it is markup."""
    console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False, width=WIDE)
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name in head:
        drawn.add_column(Text(name), overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(clean(cell)) for cell in row))
    console.print(drawn)


def _model_row(model: Model) -> Sequence[str]:
    warm = {True: "warm", False: "cold"}.get(model.scaling.warm or False, "")
    first_sentence = model.description.split(". ")[0]
    return model.name, model.lane, warm, first_sentence


def _about(model: Model) -> str:
    limit = model.limits.run_timeout_s
    lines = [
        f"{clean(model.name)}: {clean(model.title)} ({clean(model.revision)})",
        clean(model.description, most=2000),
        "",
        f"lane {clean(model.lane)}, one job runs {limit} s at most, licence {clean(model.licence)}",
        f"price {clean(model.price.per_gpu_second)} {clean(model.price.currency)} a GPU-second",
        f"without a seed: {clean(model.seed_default)}",
        "",
        "inputs (JSON Schema):",
        pretty(dict(model.input_schema)),
    ]
    return "\n".join(lines)


def _job_row(job: Job) -> Sequence[str]:
    created = f"{job.created_at:%Y-%m-%d %H:%M:%S}" if job.created_at else ""
    return job.id, job.model, job.state, created


def _usage_rows(body: Mapping[str, Any]) -> Iterable[Sequence[str]]:
    for name in ("used", "saved"):
        yield name, *_amount(body.get(name))
    for each in body.get("models") or ():
        yield f"  {each.get('model')}", *_amount(each.get("used"))
    for period in ("day", "month"):
        budget = (body.get("left") or {}).get(period)
        if budget:
            yield f"left this {period}", f"{budget.get('left')} of {budget.get('allowed')}", ""


def _amount(amount: Mapping[str, Any] | None) -> Sequence[str]:
    amount = amount or {}
    return str(amount.get("gpu_seconds", "")), str(amount.get("cost", ""))

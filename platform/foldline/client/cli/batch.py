"""`foldline batch`: every *.json of a folder is a call; its outcome goes to results/NAME.json.

What was done is skipped, so the command can be repeated until all is done: after a kill it takes
up the same jobs, and what failed is tried once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from foldline.client.asks import MOST_BATCH
from foldline.client.cli import options as given
from foldline.client.cli.door import connected, console, fail, say, show
from foldline.client.cli.exits import Exit
from foldline.client.cli.folder import Item, items_of
from foldline.client.cli.lists import table
from foldline.client.cli.screen import Screen
from foldline.client.cli.words import clean, one_line
from foldline.client.errors import FoldlineError
from foldline.client.shapes import Batch, Job
from foldline.client.sync import Foldline


def batch(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="A folder of *.json files.")
    ],
    *,
    model: Annotated[
        str | None,
        typer.Option(
            help="The files hold inputs of this model. Without it each is"
            ' {"model": …, "inputs": {…}, "seed": …}.'
        ),
    ] = None,
    session: given.Session = None,
    priority: given.Priority = None,
    no_cache: given.NoCache = False,
    timeout: given.Timeout = None,
    as_json: given.AsJson = False,
) -> None:
    """Run every *.json of a folder, and write each outcome to FOLDER/results.

    Repeat it after a crash or a failure: what is done is skipped, jobs that run
    are taken up, what failed is tried again.
    """
    items = items_of(folder, model=model)
    if not items:
        fail(f"{clean(folder)} holds no *.json.")
    options = given.options_of(session=session, priority=priority, no_cache=no_cache)
    try:
        with connected(context, as_json=as_json) as foldline:
            chunks = list(_chunks([item for item in items if item.to_do]))
            sent = [
                (chunk, foldline.batch([item.call(options) for item in chunk], **options))
                for chunk in chunks
            ]
            for chunk, told in sent:
                _follow(foldline, chunk, told, timeout_s=timeout)
    finally:
        _summary(items, as_json=as_json)
    if any(item.outcome != "succeeded" for item in items):
        raise typer.Exit(Exit.JOB_FAILED)


def _chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), MOST_BATCH):
        yield items[start : start + MOST_BATCH]


def _follow(
    foldline: Foldline, items: Sequence[Item], batch: Batch, *, timeout_s: float | None
) -> None:
    """Write each outcome as soon as it is there, so that nothing is fetched twice."""

    def seen(now: Batch) -> None:
        for each in now.jobs:
            item = items[each.index]
            if item.written:
                continue
            if each.error is not None:
                item.refused(each.error, index=each.index)
            elif each.job is not None and each.job.ended:
                _write(foldline, item, each.job)
            elif each.job is not None:
                item.outcome = each.job.state
        screen.show([each.job for each in now.jobs if each.job is not None])

    labels = {each.job.id: clean(items[each.index].name) for each in batch.jobs if each.job}
    with Screen(console, labels) as screen:
        foldline.follow(batch, timeout_s=timeout_s, seen=seen)


def _write(foldline: Foldline, item: Item, job: Job) -> None:
    if job.state != "succeeded":
        item.ended(job)
        return
    try:
        item.ended(job, foldline.result(job.id))
    except FoldlineError as error:
        say(f"{clean(item.name)}: {clean(error)}")


def _summary(items: Sequence[Item], *, as_json: bool) -> None:
    if as_json:
        for item in items:
            show(one_line(item.told()))
        return
    table(("NAME", "OUTCOME", "JOB", ""), [item.row() for item in items])
    done = sum(item.outcome == "succeeded" for item in items)
    if done < len(items):
        say(f"{done} of {len(items)} succeeded. The same command goes on with the others.")

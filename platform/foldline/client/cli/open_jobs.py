"""`foldline wait`, `cancel` and `artifacts`: jobs that were submitted before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foldline.client.cli import options as given
from foldline.client.cli.door import connected, console, say, show
from foldline.client.cli.exits import Exit, exit_of
from foldline.client.cli.saving import save_files
from foldline.client.cli.screen import Screen
from foldline.client.cli.words import clean, one_line, problem_lines
from foldline.client.errors import JobFailed
from foldline.client.landing import files_in
from foldline.client.shapes import Job

Jobs = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Ids of jobs.", show_default=False)
]


def wait(
    context: typer.Context,
    job: Jobs,
    *,
    any_of: Annotated[bool, typer.Option("--any", help="Until one has ended, not all.")] = False,
    timeout: given.Timeout = None,
    as_json: given.AsJson = False,
) -> None:
    """Wait until jobs have ended, and say how. Ctrl-C leaves them running."""
    with connected(context, as_json=as_json) as foldline:
        with Screen(console) as screen:
            jobs = foldline.wait(
                job, "any" if any_of else "all", timeout_s=timeout, seen=lambda j: screen.show(j)
            )
        for each in jobs:
            _end(each, as_json=as_json)
        failed = [each for each in jobs if each.ended and each.state != "succeeded"]
        if failed:
            alone = len(jobs) == 1
            raise typer.Exit(exit_of(JobFailed(failed[0])) if alone else Exit.JOB_FAILED)


def cancel(context: typer.Context, job: Jobs, *, as_json: given.AsJson = False) -> None:
    """Cancel jobs. One that runs is cancelled once its worker has stopped."""
    with connected(context, as_json=as_json) as foldline:
        for each in job:
            _end(foldline.cancel(each), as_json=as_json)


def artifacts(
    context: typer.Context,
    job: Annotated[str, typer.Argument(metavar="ID", help="A job that has succeeded.")],
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where the files go.")
    ],
    overwrite: given.Overwrite = False,
    as_json: given.AsJson = False,
) -> None:
    """Download the files of a job's result. What is there already is not fetched again."""
    with connected(context, as_json=as_json) as foldline:
        files = files_in(foldline.result(job).result)
        if not files:
            say("The result has no files.")
        for path in save_files(foldline, files, output, overwrite=overwrite):
            if as_json:
                show(one_line({"file": str(path)}))


def _end(job: Job, *, as_json: bool) -> None:
    if as_json:
        show(one_line(job.body))
        return
    state = "is being cancelled" if job.cancelling else clean(job.state)
    show(f"{clean(job.id)}  {clean(job.model)}  {state}")
    for line in problem_lines(job.error) if job.error else ():
        show(f"  {line}")

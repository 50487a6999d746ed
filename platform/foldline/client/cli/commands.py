"""The commands, in the order in which `foldline --help` lists them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from foldline.client.cli import batch, calls, lists, open_jobs
from foldline.client.cli.door import Place

app = typer.Typer(
    name="foldline",
    help="Call scientific models. Set FOLDLINE_URL and FOLDLINE_API_KEY first.",
    epilog="Exit codes: 0 done, 2 usage, 3 invalid input, 4 key, 5 not found, 6 quota or limit,"
    " 7 job failed, 8 Foldline is not available, 9 not ended in time, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def place(
    context: typer.Context,
    *,
    url: Annotated[
        str, typer.Option(envvar="FOLDLINE_URL", help="Where Foldline is.")
    ] = "http://127.0.0.1:8000",
    key_file: Annotated[
        Path | None,
        typer.Option(
            envvar="FOLDLINE_API_KEY_FILE",
            metavar="FILE",
            help="A file with the API key, instead of FOLDLINE_API_KEY.",
        ),
    ] = None,
) -> None:
    named = key_file if key_file and os.fspath(key_file) else None
    context.obj = Place(url=url, key_file=named)


app.command("models")(lists.models)
app.command("run")(calls.run)
app.command("estimate")(calls.estimate)
app.command("batch")(batch.batch)
app.command("wait")(open_jobs.wait)
app.command("cancel")(open_jobs.cancel)
app.command("jobs")(lists.jobs)
app.command("artifacts")(open_jobs.artifacts)
app.command("usage")(lists.usage)

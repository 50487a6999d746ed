"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from foldline.client.asks import Options

AsJson = Annotated[
    bool, typer.Option("--json", help="One JSON document per result on stdout, nothing else.")
]
Input = Annotated[
    str,
    typer.Option("-i", "--input", metavar="FILE", help="The inputs, a JSON object; - reads stdin."),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "-f", "--file", metavar="FIELD=PATH", help="Upload a file and put it into this input field."
    ),
]
Seed = Annotated[int | None, typer.Option(help="Same inputs and seed, same answer.")]
Priority = Annotated[
    Literal["interactive", "batch"] | None,
    typer.Option(help="batch yields to jobs somebody is waiting for."),
]
Session = Annotated[str | None, typer.Option(help="A name of your own that groups jobs.")]
Deadline = Annotated[
    float | None,
    typer.Option("--deadline", metavar="SECONDS", help="After that the result is worthless."),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Compute it anew in any case.")]
Timeout = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0, help="Stop waiting after that; the job goes on."),
]
Folder = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FOLDER", help="Save the result's files here."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")]


def options_of(
    *,
    seed: int | None = None,
    priority: Literal["interactive", "batch"] | None = None,
    session: str | None = None,
    deadline_s: float | None = None,
    no_cache: bool = False,
) -> Options:
    """What was given; what was not is left to the server."""
    options = Options()
    if seed is not None:
        options["seed"] = seed
    if priority is not None:
        options["priority"] = priority
    if session is not None:
        options["session"] = session
    if deadline_s is not None:
        options["deadline_s"] = deadline_s
    if no_cache:
        options["no_cache"] = True
    return options

"""From the command line to a client, and from whatever happens to an exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from foldline.client.cli.exits import Exit, exit_of
from foldline.client.cli.words import clean, one_line, problem_lines
from foldline.client.errors import FoldlineError, JobFailed
from foldline.client.sync import Foldline

MOST_FILE_BYTES = 64 * 1024 * 1024

# What is said beside the results goes to stderr: stdout can be read by a program.
console = Console(stderr=True, markup=False, highlight=False, emoji=False)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where Foldline is, and the file that holds the key, if one was named."""

    url: str
    key_file: Path | None

    def key(self) -> str:
        """The API key; it is never taken from the command line, which others can read."""
        if self.key_file is None:
            key = os.environ.get("FOLDLINE_API_KEY", "")
            if not key:
                fail("Set FOLDLINE_API_KEY to your API key, or name a file with --key-file.")
            return key
        return text_of(self.key_file, most=4096).strip()


def say(text: str) -> None:
    """A line for the person in front."""
    console.print(Text(text), soft_wrap=True)


def show(text: str) -> None:
    """A line of the result. It must be clean."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def fail(text: str, code: Exit = Exit.USAGE) -> NoReturn:
    say(text)
    raise typer.Exit(code)


@contextmanager
def connected(context: typer.Context, *, as_json: bool) -> Iterator[Foldline]:
    """The client; an error in the block is told, and ends the program with its code."""
    place: Place = context.obj
    try:
        client = Foldline(place.url, place.key(), noticed=_noticed)
    except ValueError as error:
        fail(str(error))
    try:
        with client:
            yield client
    except FoldlineError as error:
        tell(error, as_json=as_json)
        raise typer.Exit(exit_of(error)) from None
    except KeyboardInterrupt:
        fail("Interrupted. What was sent goes on.", Exit.INTERRUPTED)
    except BrokenPipeError:  # nobody reads stdout any more, as after `| head`: end in silence
        raise
    except OSError as error:
        fail(f"{clean(error.filename or '')}: {clean(error.strerror or error)}")


def tell(error: FoldlineError, *, as_json: bool) -> None:
    """With `as_json`, on stdout, as the server tells it; else in words."""
    if as_json:
        of_job = {"job": error.job.id} if isinstance(error, JobFailed) else {}
        show(one_line({**of_job, "error": error.problem.body}))
    for line in problem_lines(error.problem):
        say(line)


def _noticed(error: FoldlineError, pause_s: float) -> None:
    say(f"{clean(error.problem.detail)} Trying again in {pause_s:.0f} s.")


def json_object(file: str) -> dict[str, Any]:
    """The JSON object in a file; `-` is the standard input."""
    text = sys.stdin.read() if file == "-" else text_of(Path(file), most=MOST_FILE_BYTES)
    found = parsed(text)
    if not isinstance(found, dict):
        fail(f"{clean(file)}: {found}", Exit.INVALID_INPUT)
    return found


def parsed(text: str) -> dict[str, Any] | str:
    """The JSON object of a text, or why it holds none."""
    try:
        found = json.loads(text)
    except ValueError as error:
        return f"this is no JSON: {clean(error)}"
    except RecursionError:
        return "this JSON is nested too deeply"
    return found if isinstance(found, dict) else "this is no JSON object"


def text_of(file: Path, *, most: int) -> str:
    try:
        if file.stat().st_size > most:
            fail(f"{clean(file)} is larger than {most} bytes.")
        return file.read_text()
    except UnicodeDecodeError:
        fail(f"{clean(file)} is not text in UTF-8.", Exit.INVALID_INPUT)
    except OSError as error:
        fail(f"{clean(file)}: {clean(error.strerror or error)}")

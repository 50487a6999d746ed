"""`foldline run` and `foldline estimate`: one call of one model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from foldline.client.asks import File, Options
from foldline.client.cli import options as given
from foldline.client.cli.door import Place, connected, console, fail, json_object, say, show
from foldline.client.cli.exits import Exit
from foldline.client.cli.runs import Run, begin, state_folder
from foldline.client.cli.saving import save_files
from foldline.client.cli.screen import Screen
from foldline.client.cli.words import clean, one_line, pretty, problem_lines, span
from foldline.client.errors import JobFailed, Refused
from foldline.client.landing import files_in, sha256_of
from foldline.client.shapes import Estimate, Job, Result
from foldline.client.sync import Foldline

Model = Annotated[str, typer.Argument(help="The model's name, see `foldline models`.")]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", help="A new job, even if the same run has not been seen to its end."),
]

_FOR_GOOD = frozenset({400, 404, 410, 413, 422})


def run(
    context: typer.Context,
    model: Model,
    *,
    input_file: given.Input,
    file: given.Files = None,
    output: given.Folder = None,
    seed: given.Seed = None,
    priority: given.Priority = None,
    session: given.Session = None,
    deadline: given.Deadline = None,
    no_cache: given.NoCache = False,
    timeout: given.Timeout = None,
    fresh: Fresh = False,
    overwrite: given.Overwrite = False,
    as_json: given.AsJson = False,
) -> None:
    """Run a model on the inputs in a file, and show what it answers.

    Ctrl-C leaves the job running. After that, or after a crash, the same command
    takes up the same job.
    """
    inputs = with_files(json_object(input_file), file or [])
    options = given.options_of(
        seed=seed, priority=priority, session=session, deadline_s=deadline, no_cache=no_cache
    )
    with connected(context, as_json=as_json) as foldline:
        one = begin(
            state_folder(), where=_where(context), call=_named(model, inputs, options), fresh=fresh
        )
        with _whole_body_said(input_file, as_json=as_json), _forgotten_at_its_end(one):
            job = foldline.submit(model, inputs, idempotency_key=one.key, **options)
            result = _finish(foldline, job, again=one.again, timeout_s=timeout)
            files = files_in(result.result)
            saved = save_files(foldline, files, output, overwrite=overwrite) if output else []
            _show(result, saved, as_json=as_json)
            if files and not output:
                say(f"Its files: foldline artifacts {clean(result.job)} -o FOLDER")


def estimate(
    context: typer.Context,
    model: Model,
    *,
    input_file: given.Input,
    file: given.Files = None,
    seed: given.Seed = None,
    priority: given.Priority = None,
    as_json: given.AsJson = False,
) -> None:
    """What a run would come to: checks, wait, cost. Nothing is queued."""
    inputs = with_files(json_object(input_file), file or [])
    options = given.options_of(seed=seed, priority=priority)
    with (
        connected(context, as_json=as_json) as foldline,
        _whole_body_said(input_file, as_json=as_json),
    ):
        told = foldline.estimate(model, inputs, **options)
        show(one_line(told.body) if as_json else "\n".join(_estimated(told)))


def with_files(inputs: dict[str, Any], files: list[str]) -> dict[str, Any]:
    """The inputs with each FIELD=PATH as a file to upload."""
    for each in files:
        field, _, path = each.partition("=")
        if not field or not path:
            fail(f"--file {clean(each)}: write it as FIELD=PATH.")
        if field in inputs:
            fail(f"--file {clean(each)}: the inputs have a {clean(field)} already.")
        if not Path(path).is_file():
            fail(f"--file {clean(each)}: there is no such file.")
        inputs[field] = File(path)
    return inputs


def _where(context: typer.Context) -> str:
    place: Place = context.obj
    return place.url


def _named(model: str, inputs: dict[str, Any], options: Options) -> dict[str, Any]:
    """What makes two calls the same; a file counts by its content."""
    plain = {
        name: {"sha256": sha256_of(value.path)} if isinstance(value, File) else value
        for name, value in inputs.items()
    }
    return {"model": model, "inputs": plain, **options}


@contextmanager
def _whole_body_said(file: str, *, as_json: bool) -> Iterator[None]:
    """One line for whoever put the body of a submit where its inputs belong. Only the server
    knows that the model has no input of that name."""
    try:
        yield
    except Refused as refused:
        found = {(each.pointer, each.code) for each in refused.problem.errors}
        if as_json or ("/inputs/inputs", "unknown_field") not in found:
            raise
        fail(
            f"{clean(file)} is to hold the inputs themselves: what stands under `inputs` in it."
            " Seed, session and the like are options.",
            Exit.INVALID_INPUT,
        )


@contextmanager
def _forgotten_at_its_end(one: Run) -> Iterator[None]:
    """The run is over when its end was shown, or when its call was refused for good.

    It is not when the job goes on without us: a time-out, Ctrl-C, a kill, a server or a key
    that is gone.
    """
    try:
        yield
    except JobFailed:
        one.forget()
        raise
    except Refused as refused:
        if refused.problem.status in _FOR_GOOD:
            one.forget()
        raise
    one.forget()


def _finish(foldline: Foldline, job: Job, *, again: bool, timeout_s: float | None) -> Result:
    say(f"Job {clean(job.id)}" + (", taken up again (--fresh makes a new one)" if again else ""))
    try:
        with Screen(console, {job.id: clean(job.model)}) as screen:
            (job,) = foldline.wait([job], timeout_s=timeout_s, seen=lambda jobs: screen.show(jobs))
    except KeyboardInterrupt:
        say(
            f"The job goes on. Take it up with the same command, or: foldline wait {clean(job.id)}"
            f"\nTo stop it: foldline cancel {clean(job.id)}"
        )
        raise typer.Exit(Exit.INTERRUPTED) from None
    if job.state != "succeeded":
        raise JobFailed(job)
    return foldline.result(job.id)


def _show(result: Result, saved: list[Path], *, as_json: bool) -> None:
    for warning in result.warnings:
        say(f"Note: {clean(warning.message or warning.code)}")
    if as_json:
        show(one_line({**result.body, "files": [str(path) for path in saved]}))
    else:
        show(pretty(dict(result.result)))


def _estimated(told: Estimate) -> Iterator[str]:
    now = datetime.now(UTC)
    if told.cache.hit:
        yield "It has run before: the answer is there at once."
    else:
        start = span(told.eta.start_p50, told.eta.start_p90, now)
        done = span(told.eta.finish_p50, told.eta.finish_p90, now)
        yield f"start: {start or 'nobody can say'}"
        yield f"done:  {done or 'nobody can say'}"
    if told.cold_start.expected:
        yield "       no worker has the model loaded"
    if told.usage.gpu_seconds is not None:
        cost = f"{clean(told.usage.cost)} {clean(told.usage.currency)}"
        yield f"uses:  {told.usage.gpu_seconds:.1f} GPU-seconds, {cost}"
    for warning in told.warnings:
        yield f"note:  {clean(warning.message or warning.code)}"
    if told.refusal:
        yield "It would be refused now: " + "\n".join(problem_lines(told.refusal))

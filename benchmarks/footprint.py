"""How much memory an idle Foldline holds, as `manage.py up` starts it with one worker, and how long
each built-in model takes to load.
`python -m benchmarks.footprint`; the built-ins are left out when their runtime is missing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.figures import figure, publish

if TYPE_CHECKING:
    from foldline.ops.programs import Program

SETTLE_S = 3

# The state folder of this checkout, before the stage moves to one of its own.
INSTALLED = Path(os.environ.get("FOLDLINE_HOME") or Path(__file__).resolve().parents[1] / "var")


def main() -> None:
    from benchmarks import stage
    from foldline.ops import local

    figures: list[dict[str, Any]] = []
    with ExitStack() as running:
        pids = {"broker": running.enter_context(stage.redis_server())}
        stage.prepare()
        for program in local.services(worker_grace_s=5):
            pids[program.name] = running.enter_context(_run(program))
        pids["worker_host"] = running.enter_context(stage.worker("sleepy", ready=_ready("sleepy")))
        time.sleep(SETTLE_S)
        parts = {name: round(_rss_mb(pid), 1) for name, pid in pids.items()}
        processes = sum(len(_family(pid)) for pid in pids.values())
        figures.append(
            figure("idle_rss_mb", sum(parts.values()), unit="MB", parts=parts, processes=processes)
        )
        figures += [_load_seconds(name) for name in _link_builtins()]
    publish("footprint", figures)


def _rss_mb(pid: int) -> float:
    """Resident memory of a program with its children; what they share is counted in each."""
    return float(sum(each.memory_info().rss for each in _family(pid))) / 1e6


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _link_builtins() -> list[str]:
    """Make the built-in models live on the runtime that is installed; their names."""
    from benchmarks import stage
    from foldline.catalog.models import Revision
    from foldline.catalog.services import publish as set_live
    from foldline.catalog.services import sync
    from model_plugins.registry import BUILTIN_ROOT, discover

    runtime = INSTALLED / "runtimes" / "builtin"
    if not runtime.exists():
        print("the runtime `builtin` is not installed: no load times", file=sys.stderr)
        return []
    (stage.HOME / "runtimes" / "builtin").symlink_to(runtime)
    names = []
    for outcome in sync(discover([BUILTIN_ROOT])).outcomes:
        set_live(Revision.objects.get(model__name=outcome.name), by=None)
        names.append(outcome.name)
    return names


def _load_seconds(model: str) -> dict[str, Any]:
    """From starting the worker to its first ticket."""
    from benchmarks import stage
    from foldline.fleet.models import Worker

    began = time.monotonic()
    with stage.worker(model, ready=_ready(model)):
        seconds = time.monotonic() - began
        row = Worker.objects.get(revision__model__name=model)
    phases = {name: round(took, 2) for name, took in row.load_seconds.items()}
    peak = round(row.peak_memory_bytes / 1e6, 1)
    return figure(
        f"start_to_ready_{model}_s", seconds, unit="s", load_phases_s=phases, peak_rss_mb=peak
    )


def _ready(model: str) -> Any:
    def ready() -> bool:
        from foldline.fleet.models import Worker

        return Worker.objects.filter(revision__model__name=model, state="ready").exists()

    return ready


@contextmanager
def _run(program: Program) -> Iterator[int]:
    """As `manage.py up` starts it, but for its leash."""
    from benchmarks import stage

    # The stage's own gateway has one process; `up` has two.
    environment = {"FOLDLINE_GATEWAY_PROCESSES": "2", **program.environment}
    with stage.process(*program.command, ready=lambda: program.ready(0), **environment) as pid:
        yield pid


if __name__ == "__main__":
    main()

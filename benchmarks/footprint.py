"""How much memory an idle Foldline holds, and how long each built-in model takes to load.

`python -m benchmarks.footprint`; the built-ins are left out when their runtime is missing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figures import figure, publish

# The state folder of this checkout, before the stage moves to one of its own.
INSTALLED = Path(os.environ.get("FOLDLINE_HOME") or Path(__file__).resolve().parents[1] / "var")


def main() -> None:
    from benchmarks import stage

    figures: list[dict[str, Any]] = []
    with ExitStack() as running:
        running.enter_context(stage.redis_server())
        stage.prepare()
        pids = {
            "gateway": running.enter_context(stage.gateway()),
            "sweeper": running.enter_context(_program("manage.py", "sweeper")),
            "flower": running.enter_context(_flower()),
            "worker_host": running.enter_context(stage.worker("sleepy", ready=_ready("sleepy"))),
        }
        time.sleep(2)
        parts = {name: round(_rss_mb(pid, name), 1) for name, pid in pids.items()}
        figures.append(
            figure("idle_rss_mb", sum(parts.values()), unit="MB", parts=parts, gateway_processes=1)
        )
        figures += [_load_seconds(name) for name in _link_builtins()]
    publish("footprint", figures)


def _rss_mb(pid: int, name: str) -> float:
    """Resident memory of a program: gunicorn with its worker, a worker without its plugin."""
    import psutil

    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)] if name == "gateway" else [process]
    return float(sum(each.memory_info().rss for each in family)) / 1e6


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
def _program(*command: str) -> Iterator[int]:
    from benchmarks import stage

    with stage.process(sys.executable, *command, ready=lambda: True) as pid:
        yield pid


@contextmanager
def _flower() -> Iterator[int]:
    from benchmarks import stage
    from foldline.ops.local import flower

    program = flower()
    port = str(stage.FLOWER_PORT)
    environment = {**program.environment, "FLOWER_PORT": port}
    with stage.process(
        *program.command, ready=lambda: stage.listens(stage.FLOWER_PORT), **environment
    ) as pid:
        yield pid


if __name__ == "__main__":
    main()

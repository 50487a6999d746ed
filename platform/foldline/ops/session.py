"""One run of `up` or `demo`: everything started, something done, everything stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.core.management.base import CommandError

from foldline.fleet import runtimes
from foldline.fleet.packages import RuntimeTrouble
from foldline.ops import local
from foldline.ops.demo_data import seed
from foldline.ops.interrupts import Interrupts, interrupts
from foldline.ops.output import Output
from foldline.ops.sole import Occupied, sole_run
from foldline.ops.supervisor import Supervisor, SupervisorError


@dataclass(frozen=True, kw_only=True)
class Run:
    """`demo`: with the built-in runtime, the demo tenant and the built-in models live.
    `echo`: the programs' lines also go to the terminal. `worker_grace_s`: how long a worker
    may finish its job at the end; None: as long as the job may run."""

    demo: bool
    echo: bool
    worker_grace_s: float | None


def run(plan: Run, *, then: Callable[[Supervisor, Output], int]) -> int:
    """Bring everything up, do `then`, bring everything down; gives the exit status.

    Interrupted at any step: all is stopped, 130. Raises CommandError with a sentence.
    """
    with interrupts() as stops:
        output = Output(settings.HOME / "logs", echo=plan.echo)
        supervisor = Supervisor(say=output.say, write=output.write)
        try:
            with sole_run(settings.HOME):
                try:
                    _bring_up(plan, supervisor, output)
                    return then(supervisor, output)
                finally:
                    _bring_down(supervisor, output, stops)
        except KeyboardInterrupt:
            output.say("stopped: nothing of it is running any more")
            return stops.exit_status
        except (Occupied, local.Trouble, RuntimeTrouble) as trouble:
            raise CommandError(str(trouble)) from trouble
        except SupervisorError as error:
            raise CommandError(_with_last_words(error, output)) from error


def _bring_up(plan: Run, supervisor: Supervisor, output: Output) -> None:
    if plan.demo:
        runtimes.install("builtin", say=output.say)
    local.require_ports()
    local.start_broker(supervisor)
    local.migrate()
    if plan.demo:
        seed(say=output.say)
    local.start_services(supervisor, worker_grace_s=plan.worker_grace_s)


def _bring_down(supervisor: Supervisor, output: Output, stops: Interrupts) -> None:
    stops.begin_stop()
    if supervisor.places:
        hint = " (Ctrl-C again ends it at once)" if sys.stdout.isatty() else ""
        output.say(f"stopping{hint} ...")
    supervisor.stop(urgent=lambda: stops.urgent)


def _with_last_words(error: SupervisorError, output: Output) -> str:
    log = output.folder / f"{error.program}.log"
    last = "" if output.echo else f"\n{output.tail(error.program)}"
    return f"{error}. Its log is {log}.{last}"

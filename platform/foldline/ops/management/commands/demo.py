"""`manage.py demo`: everything up, a small agent's whole job, everything down."""

from __future__ import annotations

import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from foldline.ops.demo_data import demo_key
from foldline.ops.output import Output
from foldline.ops.programs import Child, Program
from foldline.ops.session import Run, run
from foldline.ops.supervisor import BEAT_S, Supervisor

AGENT_GRACE_S = 20  # it cancels its open jobs
WORKER_GRACE_S = 15


class Command(BaseCommand):
    help = "Run the main job once: fold an antibody, redesign a chain, refold, score."

    def handle(self, **_options: Any) -> None:
        plan = Run(demo=True, echo=False, worker_grace_s=WORKER_GRACE_S)
        sys.exit(run(plan, then=run_agent))


def run_agent(supervisor: Supervisor, _output: Output) -> int:
    """Run the example agent to its end; gives its exit status."""
    agent = Child(_agent(), write=None)
    try:
        while (status := agent.status) is None:
            supervisor.beat()
            time.sleep(BEAT_S)
        return status
    finally:
        _end(agent)


def _agent() -> Program:
    return Program(
        name="agent",
        command=(sys.executable, "examples/antibody_chain.py"),
        environment={
            "FOLDLINE_URL": f"http://127.0.0.1:{settings.PORT}",
            "FOLDLINE_API_KEY": demo_key(),
            "FOLDLINE_RESULTS": str(settings.HOME / "demo"),
        },
    )


def _end(agent: Child) -> None:
    agent.ask_to_end()
    deadline = time.monotonic() + AGENT_GRACE_S
    while agent.status is None and time.monotonic() < deadline:
        time.sleep(BEAT_S)
    agent.end_now()

"""An agent that cannot wait drives a job of several minutes, on a cold model, to its result.

Its framework ends every tool call after 60 s and repeats it, same arguments, without asking. The
tool knows no idempotency key: it submits with `Prefer: wait=50`, then asks by long-poll until it
is cut off. Each repeat is a submit of its own; equal calls share one run.

`agent_jobs`: attempts that were computed. `agent_requests`: HTTP requests until the result was
there. Times are a fifteenth of the real ones; `--full` takes the real ones.
`python -m benchmarks.agent_loop`
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx

from benchmarks.both_databases import on_both
from benchmarks.figures import figure
from benchmarks.patience import wait_until

SCALE = 15
TOOL_S, WAIT_S = 60.0, 50
LOAD_S, JOB_S = 20.0, 200.0
MOST_REQUESTS = 12


def main() -> None:
    scale = 1 if "--full" in sys.argv else SCALE
    full = ["--full"] if scale == 1 else []
    on_both("agent_loop", partial(measure, scale), *full)


def measure(scale: int) -> list[dict[str, Any]]:
    """The figures on the database that DATABASE_URL names."""
    from benchmarks import stage

    with ExitStack() as running:
        running.enter_context(stage.redis_server())
        key = stage.prepare()
        running.enter_context(stage.gateway())
        running.enter_context(stage.sweeper())
        for command in (("manage.py", "forecaster"), ("-m", "scaler")):
            running.enter_context(
                stage.process(
                    sys.executable,
                    *command,
                    ready=lambda: True,
                    FOLDLINE_SCALER_TARGET="local",
                    FOLDLINE_LOCAL_WORKERS="1",
                    FOLDLINE_TEST_LOAD_SECONDS=str(LOAD_S / scale),
                )
            )
        wait_until(_has_decided)
        assert not _workers(), "the model is not cold"
        began = time.monotonic()
        agent = Agent(url=f"http://127.0.0.1:{stage.PORT}", key=key, scale=scale)
        result = agent.drive({"seconds": JOB_S / scale, "echo": "done"})
        assert result["echo"] == "done"
        return _figures(agent, took_s=time.monotonic() - began, database=stage.database())


def _figures(agent: Agent, *, took_s: float, database: str) -> list[dict[str, Any]]:
    from foldline.jobs.models import Attempt, Job

    on: dict[str, Any] = {"scale": f"1/{agent.scale}", "database": database}
    computed, rows = Attempt.objects.count(), Job.objects.count()
    return [
        figure("agent_jobs", computed, unit="attempts", exactly=1, submits=rows, **on),
        figure("agent_requests", agent.requests, unit="requests", at_most=MOST_REQUESTS, **on),
        figure("agent_tool_calls", agent.calls, unit="calls", cut_off=agent.cut_off, **on),
        figure("agent_wall_s", took_s, unit="s", job_s=JOB_S / agent.scale, **on),
    ]


@dataclass(kw_only=True)
class Agent:
    """The framework and its one tool. All its times are divided by `scale`."""

    url: str
    key: str
    scale: int
    requests: int = 0
    calls: int = 0
    cut_off: int = 0

    def drive(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The framework: call the tool; what was cut off is called again."""
        while True:
            self.calls += 1
            try:
                return self._run_model(inputs, until=time.monotonic() + TOOL_S / self.scale)
            except httpx.TimeoutException:
                self.cut_off += 1

    def _run_model(self, inputs: dict[str, Any], *, until: float) -> dict[str, Any]:
        """The tool: submit, and ask until there is a result or no time is left."""
        wait_s = max(1, WAIT_S // self.scale)
        with httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}
        ) as http:
            answer = self._ask(
                lambda left: http.post(
                    "/v1/models/sleepy/jobs",
                    json={"inputs": inputs},
                    headers={"Prefer": f"wait={wait_s}"},
                    timeout=left,
                ),
                until=until,
            )
            while answer.status_code == httpx.codes.ACCEPTED or "result" not in answer.json():
                job = answer.json()
                path = f"/v1/jobs/{job['id']}"
                more = "/result" if job["state"] == "succeeded" else f"?wait={wait_s}"
                answer = self._ask(lambda left: http.get(path + more, timeout=left), until=until)  # noqa: B023 - called at once
        result: dict[str, Any] = answer.json()["result"]
        return result

    def _ask(self, send: Callable[[float], httpx.Response], *, until: float) -> httpx.Response:
        left = until - time.monotonic()
        if left <= 0:
            raise httpx.ReadTimeout("no time is left")
        self.requests += 1
        answer = send(left)
        answer.raise_for_status()
        return answer


def _has_decided() -> bool:
    from foldline.fleet.models import ScalingDecision

    return ScalingDecision.objects.exists()


def _workers() -> int:
    from foldline.fleet.models import Worker

    return Worker.objects.exclude(state="gone").count()


if __name__ == "__main__":
    main()

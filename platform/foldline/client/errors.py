"""What goes wrong, each with a problem's members, whoever noticed it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foldline.client.shapes import Alternative, Finding, Job, Problem


class FoldlineError(Exception):
    """Something went wrong; `problem` tells what, whose fault it is and what to do."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(" ".join(filter(None, (problem.detail, problem.suggested_action))))

    @property
    def code(self) -> str:
        return self.problem.code

    @property
    def fault(self) -> str:
        """`caller`, `platform` or `model`."""
        return self.problem.fault

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later."""
        return self.problem.retryable

    @property
    def suggested_action(self) -> str:
        return self.problem.suggested_action

    @property
    def errors(self) -> Sequence[Finding]:
        """What is wrong in the call, place by place."""
        return self.problem.errors

    @property
    def alternatives(self) -> Sequence[Alternative]:
        return self.problem.alternatives


class Refused(FoldlineError):
    """The server refused the request; `problem.status` is the HTTP status."""


class JobFailed(FoldlineError):
    """The job ended without a result."""

    def __init__(self, job: Job) -> None:
        self.job = job
        super().__init__(job.error or _told(job.state, f"The job is {job.state}."))


class Unreachable(FoldlineError):
    """Nobody answers, in spite of trying again."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(
            _told(
                "unreachable",
                f"Nothing answers at {url} ({why}).",
                retryable=True,
                suggested_action="Check the URL and the network, and repeat the call.",
            )
        )


class BadAnswer(FoldlineError):
    """The server's answer cannot be used: not its JSON, or not the bytes that its hash names."""

    def __init__(self, detail: str, **more: Any) -> None:
        action = "Check that the URL is that of Foldline; else report it."
        super().__init__(_told("bad_answer", detail, suggested_action=action, **more))


class TimedOut(FoldlineError):
    """The time that the caller gave is over. The jobs go on."""

    def __init__(self, jobs: Sequence[Job], *, seconds: float) -> None:
        self.jobs = tuple(jobs)
        still_open = [job.id for job in jobs if not job.ended]
        super().__init__(
            _told(
                "timed_out",
                f"{len(still_open)} of {len(jobs)} jobs have not ended within {seconds:g} s.",
                retryable=True,
                suggested_action="Wait for them again: they go on.",
            )
        )


def _told(code: str, detail: str, **more: Any) -> Problem:
    """A problem in the client's own words; `body` has them as the server would tell them."""
    body = {"code": code, "detail": detail, "fault": "platform", **more}
    return Problem(**body, body=body)

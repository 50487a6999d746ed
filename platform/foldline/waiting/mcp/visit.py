"""One request of a caller: what it may ask of Django, and how it waits for jobs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from foldline.catalog.tool_schemas import OPTIONS
from foldline.errors import (
    FoldlineError,
    InternalError,
    InvalidJSON,
    InvalidRequest,
    finding,
    pointer,
    problem,
)
from foldline.tenants.visits import Visit as Asking
from foldline.waiting.bridge import Scope
from foldline.waiting.inside import Ended, Inside, Reply

Body = dict[str, Any]
Note = Callable[[Body], Awaitable[None]]

VISIT = "foldline.mcp"
OPEN = ("queued", "running")

NOTE_S = 2.5
"""Seconds between two words on the job to a client that wants to hear of it."""
EARLY_S = 0.05

_NAME = re.compile(r"[a-z0-9_]{1,64}")


class Refused(Exception):
    """Django refused. `problem` is its answer (RFC 9457), `status` that of HTTP."""

    def __init__(self, problem: Body) -> None:
        super().__init__(problem.get("code"))
        self.problem = problem
        self.status = int(problem["status"])

    @classmethod
    def of(cls, error: FoldlineError) -> Refused:
        return cls(problem(error, ""))


@dataclass(kw_only=True)
class Visit:
    """`asking`: what counts as one question against the rates. `gate`: what Django said when it
    was asked whether the caller may come in. `unwelcome`: its answer when the key stopped being
    good on the way."""

    inside: Inside
    ended: Ended
    asking: Asking
    scope: Scope
    tools: Sequence[Body]
    gate: Reply
    unwelcome: Reply | None = None

    def admit(self) -> None:
        """Raises Refused where a limit, a scope or an outage kept the caller out."""
        if self.gate.status not in (200, 304):
            raise Refused(_problem_of(self.gate))

    async def ask(
        self,
        method: str,
        target: str,
        *,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Body:
        """What Django answers. Raises Refused."""
        # The questions about a request were counted at the gate; what it does counts for itself.
        asking = self.asking if method == "GET" else None
        try:
            reply = await self.inside.ask(
                self.scope, method, target, body=body, headers=headers, visit=asking
            )
        except TypeError as error:  # a lone surrogate, or a number of more than 64 bits
            raise Refused.of(InvalidJSON(f"The arguments cannot be sent: {error}.")) from None
        if reply.status == 401:
            self.unwelcome = reply
        if reply.status // 100 != 2:
            raise Refused(_problem_of(reply))
        told: Body = reply.body
        return told

    async def submit(self, model: str, arguments: Mapping[str, Any], *, key: str | None) -> Body:
        """The job that a call of a model becomes. Raises Refused."""
        headers = {"idempotency-key": key} if key is not None else {}
        return await self._of_model(model, "jobs", *_parted(arguments), headers=headers)

    async def estimate(self, model: str, inputs: Mapping[str, Any], options: Body) -> Body:
        return await self._of_model(model, "estimate", inputs, options, headers={})

    async def _of_model(
        self,
        model: str,
        what: str,
        inputs: Mapping[str, Any],
        options: Body,
        *,
        headers: Mapping[str, str],
    ) -> Body:
        name = model if _NAME.fullmatch(model) else "-"  # as unknown as any other
        body = {**options, "inputs": inputs}
        try:
            return await self.ask("POST", f"/v1/models/{name}/{what}", body=body, headers=headers)
        except Refused as refused:
            raise Refused(_as_arguments(refused.problem)) from None

    async def job(self, job_id: str) -> Body:
        return await self.ask("GET", _path(job_id))

    async def jobs(self, job_ids: Collection[str]) -> dict[str, Body]:
        """Those of the jobs that are the caller's, by the ids as they were given; at most 100."""
        names = {job_id: _id(job_id) for job_id in job_ids}
        known = sorted({name for name in names.values() if name})
        if not known:
            return {}
        told = await self.ask("GET", f"/v1/jobs?limit={len(known)}&ids={','.join(known)}")
        jobs = {job["id"]: job for job in told["jobs"]}
        return {job_id: jobs[name] for job_id, name in names.items() if name in jobs}

    async def cancel(self, job_id: str) -> Body:
        return await self.ask("POST", f"{_path(job_id)}/cancel")

    async def result(self, job: Body) -> Body:
        """The model's answer of a job that has succeeded."""
        told = await self.ask("GET", f"{_path(job['id'])}/result")
        result: Body = told["result"]
        return result

    async def until_ended(
        self,
        job_ids: Collection[str],
        *,
        mode: Literal["any", "all"],
        timeout_s: float,
        note: Note | None,
    ) -> None:
        """Return once any or all of these jobs, which are the caller's, have ended, or when the
        time is over, or when there is no waiting here: the process ends, the key has ended or
        the room is full. `note` hears now and then how the first of them stands. Raises
        Refused."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout_s
        left = {UUID(name): name for name in job_ids}
        while left and (now := loop.time()) < ends:
            until = min(ends, now + NOTE_S) if note else ends
            ended = await self._ended(left, mode=mode, timeout_s=until - now)
            left = {job_id: name for job_id, name in left.items() if job_id not in ended}
            if (ended and mode == "any") or loop.time() < until - EARLY_S:
                return
            if left and note:
                await note(await self.job(next(iter(left.values()))))

    async def _ended(
        self, jobs: Collection[UUID], *, mode: Literal["any", "all"], timeout_s: float
    ) -> Collection[UUID]:
        try:
            return await self.ended(
                list(jobs), mode=mode, timeout_s=timeout_s, caller=self.asking.caller
            )
        except FoldlineError:
            return ()


def _path(job_id: str) -> str:
    """Of a job; what is no id leads nowhere, like an id of nobody."""
    return f"/v1/jobs/{_id(job_id) or '-'}"


def _id(text: str) -> str | None:
    try:
        return str(UUID(text))
    except ValueError:
        return None


def _problem_of(reply: Reply) -> Body:
    if isinstance(reply.body, dict) and "code" in reply.body:
        return reply.body
    return problem(InternalError(), reply.headers.get("x-request-id", ""))


def _parted(arguments: Mapping[str, Any]) -> tuple[Body, Body]:
    """The model's inputs and the call's options. Raises Refused."""
    options = arguments.get(OPTIONS, {})
    if not isinstance(options, dict):
        wrong = finding(pointer(OPTIONS), "wrong_type", got=options, expected="an object")
        raise Refused.of(InvalidRequest(errors=[wrong]))
    return {name: value for name, value in arguments.items() if name != OPTIONS}, options


def _as_arguments(told: Body) -> Body:
    """A problem whose pointers lead into a tool's arguments instead of a request's body."""
    errors = [{**each, "pointer": _moved(each["pointer"])} for each in told.get("errors", [])]
    return {**told, "errors": errors} if errors else told


def _moved(place: str) -> str:
    if place == "/inputs" or place.startswith("/inputs/"):
        return place.removeprefix("/inputs")
    return f"/{OPTIONS}{place}" if place.startswith("/") else place

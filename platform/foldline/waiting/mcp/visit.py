"""One request of a caller: what it may ask of Django, and how it waits for jobs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote
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
from foldline.waiting.bridge import Scope
from foldline.waiting.inside import Ended, Inside, Reply

Body = dict[str, Any]

VISIT = "foldline.mcp"
OPEN = ("queued", "running")

CHECK_S = 2.5
"""Seconds between two looks at the job, and so at the key, of one who waits. A revoked key is
known everywhere after two more."""

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
    """`gate`: what Django said when it was asked whether the caller may come in. `unwelcome`:
    its answer when the key stopped being good on the way."""

    inside: Inside
    ended: Ended
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
        try:
            reply = await self.inside.ask(self.scope, method, target, body=body, headers=headers)
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
        note: Callable[[Body], Awaitable[None]],
    ) -> None:
        """Return once any or all of these jobs, which are the caller's, have ended, or when the
        time is over, or when there is no waiting here: the process ends, or the room is full.
        `note` hears now and then how the first of them stands. Raises Refused when the caller may
        not ask any more."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout_s
        left = {UUID(name): name for name in job_ids}
        while left and (spell := min(CHECK_S, ends - loop.time())) > 0:
            began = loop.time()
            try:
                ended = await self.ended(list(left), mode=mode, timeout_s=spell)
            except FoldlineError:
                return
            for job_id in ended:
                left.pop(job_id, None)
            if not left or (mode == "any" and len(left) < len(job_ids)):
                return
            if loop.time() - began < spell / 2:
                return  # sent home early
            await note(await self.job(next(iter(left.values()))))


def _path(job_id: str) -> str:
    """Of a job; what is no id leads nowhere, like an id of nobody."""
    return f"/v1/jobs/{quote(job_id, safe='', errors='replace')}"


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

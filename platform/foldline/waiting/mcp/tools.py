"""What calling a tool does: a model's becomes a job, the helpers look after jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import orjson

from foldline.catalog.schemas import InputSchema
from foldline.catalog.tool_helpers import CANCEL, GET, WAIT, estimate
from foldline.catalog.tool_schemas import MOST_WAIT_S, OPTIONS, USUAL_WAIT_S
from foldline.errors import InvalidInput, InvalidRequest, JobNotFound, finding, pointer
from foldline.waiting.mcp.tasks import task
from foldline.waiting.mcp.visit import OPEN, Note, Refused, Visit
from foldline.waiting.mcp.words import answer, refusal, said

Body = dict[str, Any]

WAIT_OPTION = "wait_s"
MOST_RESULTS = 64 * 1024
"""Bytes of results in one answer; its reader is a language model."""


async def call_model(
    visit: Visit,
    name: str,
    arguments: Mapping[str, Any],
    *,
    key: Any,
    as_task: bool,
    note: Note | None,
) -> Body:
    """Submit the call. Then a task, where the client knows them; else wait for a while. A call
    that was answered before is answered at once either way. Raises Refused."""
    arguments, wait_s = _wait_of(arguments)
    job = await visit.submit(name, arguments, key=_key(key))
    if job["state"] in OPEN and as_task:
        return {"resultType": "task", **task(job)}
    try:
        if job["state"] in OPEN:
            await visit.until_ended([job["id"]], mode="all", timeout_s=wait_s, note=note)
            job = await visit.job(job["id"])
        return said(answer(job)) if job["state"] in OPEN else await ended_result(visit, job)
    except Refused:
        return said(answer(job))  # it was accepted: who is not told its id would send it again


async def ended_result(visit: Visit, job: Body) -> Body:
    """The result of a call whose job has ended."""
    if job["state"] != "succeeded":
        return refusal(job["error"], job=job)
    return said(answer(job, await visit.result(job)))


async def call_helper(
    visit: Visit, name: str, arguments: Mapping[str, Any], *, note: Note | None
) -> Body:
    """Raises Refused."""
    _check(name, arguments)
    if name == WAIT.name:
        return said(await _wait(visit, arguments, note=note))
    if name == GET.name:
        return said(await _full_answer(visit, await visit.job(arguments["job_id"])))
    if name == CANCEL.name:
        return said(answer(await visit.cancel(arguments["job_id"])))
    options = arguments.get(OPTIONS, {})
    return said(await visit.estimate(arguments["model"], arguments["inputs"], options))


async def _full_answer(visit: Visit, job: Body) -> Body:
    return answer(job, await visit.result(job) if job["state"] == "succeeded" else None)


async def _wait(visit: Visit, arguments: Mapping[str, Any], *, note: Note | None) -> Body:
    mode = arguments.get("mode", "any")
    timeout_s = arguments.get("timeout_s", USUAL_WAIT_S)
    jobs = await _jobs(visit, arguments["job_ids"])
    if not _is_done(jobs, mode):
        left = [job["id"] for job in jobs.values() if job["state"] in OPEN]
        await visit.until_ended(left, mode=mode, timeout_s=timeout_s, note=note)
        jobs |= await visit.jobs([name for name, job in jobs.items() if job["id"] in left])
    told: Body = {"done": _is_done(jobs, mode), "jobs": await _answers(visit, jobs)}
    if any(job["state"] in OPEN for job in jobs.values()):
        told["next"] = f"Call {WAIT.name} again with the jobs that have not ended."
    return told


async def _jobs(visit: Visit, job_ids: Sequence[str]) -> dict[str, Body]:
    """By id. Raises Refused with a pointer to the first that is no job of the caller."""
    jobs = await visit.jobs(job_ids)
    for place, job_id in enumerate(job_ids):
        if job_id not in jobs:
            where = pointer("job_ids", place)
            wrong = finding(where, "invalid", expected="the `job_id` of an answer")
            raise Refused.of(JobNotFound(errors=[wrong]))
    return jobs


def _is_done(jobs: Mapping[str, Body], mode: str) -> bool:
    ended = [job["state"] not in OPEN for job in jobs.values()]
    return any(ended) if mode == "any" else all(ended)


async def _answers(visit: Visit, jobs: Mapping[str, Body]) -> list[Body]:
    """Results as long as there is room; the rest says how to get its own."""
    told: list[Body] = []
    room = MOST_RESULTS
    for job in jobs.values():
        full = await _full_answer(visit, job) if room > 0 else answer(job)
        size = len(orjson.dumps(full))
        told.append(full if size <= room or not told else answer(job))
        room -= size
    return told


def _check(name: str, arguments: Mapping[str, Any]) -> None:
    """Raises Refused where a helper's arguments do not fit its schema."""
    findings = _schemas()[name].findings(arguments)
    if findings:
        moved = [{**f, "pointer": f["pointer"].removeprefix("/inputs")} for f in findings]
        raise Refused.of(InvalidInput("The arguments do not fit.", errors=moved))


@cache
def _schemas() -> Mapping[str, InputSchema]:
    """Any name of a model passes: Django knows better which there are."""
    helpers = (WAIT, GET, CANCEL, estimate([], None))
    return {helper.name: InputSchema(helper.input_schema) for helper in helpers}


def _wait_of(arguments: Mapping[str, Any]) -> tuple[Mapping[str, Any], float]:
    """The arguments without the one option that is not the job's: how long to wait."""
    options = arguments.get(OPTIONS)
    if not isinstance(options, dict) or WAIT_OPTION not in options:
        return arguments, USUAL_WAIT_S
    wait_s = options[WAIT_OPTION]
    if isinstance(wait_s, bool) or not isinstance(wait_s, int | float):
        raise _wrong(wait_s, "wrong_type", "a number")
    if not 0 <= wait_s <= MOST_WAIT_S:
        raise _wrong(wait_s, "too_large" if wait_s > 0 else "too_small", f"0 to {MOST_WAIT_S}")
    rest = {name: value for name, value in options.items() if name != WAIT_OPTION}
    return {**arguments, OPTIONS: rest}, wait_s


def _wrong(got: object, code: str, expected: str) -> Refused:
    place = pointer(OPTIONS, WAIT_OPTION)
    return Refused.of(InvalidRequest(errors=[finding(place, code, got=got, expected=expected)]))


def _key(key: Any) -> str | None:
    """The idempotency key of a call. Raises Refused; what else it must be, Django says."""
    if key is None or (isinstance(key, str) and key.isascii()):
        return key
    wrong = finding(
        pointer("_meta", "foldline/idempotencyKey"),
        "invalid",
        got=key,
        expected="1 to 255 printable ASCII characters",
    )
    raise Refused.of(InvalidRequest(errors=[wrong]))

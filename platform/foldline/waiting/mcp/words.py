"""What an agent reads of a job: a line on how it stands, an answer, a refusal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from django.conf import settings

from foldline.catalog.tool_helpers import GET, WAIT
from foldline.errors import CATALOGUE
from foldline.waiting.mcp.visit import OPEN

Body = dict[str, Any]

MOST_LINKS = 50


def standing(job: Mapping[str, Any]) -> str:
    """Such as "Queued: 8 ahead, about 4 min, model is loading. Ends in about 5 min."."""
    state = str(job["state"])
    if state not in OPEN:
        error = job["error"]
        return f"{state.capitalize()}: {error['detail']}" if error else f"{state.capitalize()}."
    if job["cancelling"]:
        return "Cancelling: the worker is asked to stop."
    how = job["queue"]["message"] if state == "queued" else _progress(job["progress"])
    return f"{state.capitalize()}{f': {how}' if how else ''}.{_end(job['eta']['finish_p50'])}"


def _progress(progress: Mapping[str, Any] | None) -> str:
    if progress is None:
        return ""
    parts = [f"{progress['fraction']:.0%}", progress["stage"], progress["message"]]
    return ", ".join(part for part in parts if part)


def _end(finish: str | None) -> str:
    if finish is None:
        return ""
    left_s = (datetime.fromisoformat(finish) - datetime.now(UTC)).total_seconds()
    left = f"{max(left_s, 1):.0f} s" if left_s < 90 else f"{left_s / 60:.0f} min"
    return f" Ends in about {left}."


def answer(job: Mapping[str, Any], result: Mapping[str, Any] | None = None) -> Body:
    """A tool's answer about a job; `catalog.tool_schemas.answer_schema` describes it."""
    told: Body = {
        "job_id": job["id"],
        "model": job["model"],
        "state": job["state"],
        "message": standing(job),
        "seed": job["seed"],
    }
    if job["warnings"]:
        told["warnings"] = job["warnings"]
    if job["state"] in OPEN:
        if job["queue"]["alternatives"]:
            told["alternatives"] = job["queue"]["alternatives"]
        told["poll_after_s"] = job["poll_after_s"]
        told["next"] = f'Call {WAIT.name} with {{"job_ids": ["{job["id"]}"]}}.'
    elif result is not None:
        told["result"] = result
    elif job["state"] == "succeeded":
        told["next"] = f'Call {GET.name} with {{"job_id": "{job["id"]}"}} for the result.'
    else:
        told["error"] = of_tools(job["error"])
    return told


def of_tools(problem: Mapping[str, Any]) -> Body:
    """A problem whose advice is about tools, as its reader has no addresses to call."""
    kind = CATALOGUE.get(str(problem["code"]))
    action = kind.tool_action if kind else ""
    return {**problem, "suggested_action": action or problem["suggested_action"]}


def said(told: Mapping[str, Any]) -> Body:
    """A tool's result as MCP has it: as JSON text, structured, and with links to its files."""
    text = orjson.dumps(told).decode()
    return {
        "resultType": "complete",
        "content": [{"type": "text", "text": text}, *_links(told)],
        "structuredContent": dict(told),
        "isError": False,
    }


def refusal(problem: Mapping[str, Any], *, job: Mapping[str, Any] | None = None) -> Body:
    """The result of a call that was refused, or whose job has no result: what is wrong and what
    to do, for the agent to read and repair."""
    whose = {"job_id": job["id"], "model": job["model"], "state": job["state"]} if job else {}
    told = of_tools(problem)
    return {
        "resultType": "complete",
        "content": [{"type": "text", "text": _told(told)}],
        "structuredContent": {**whose, **told},
        "isError": True,
    }


def _told(problem: Mapping[str, Any]) -> str:
    lines = [f"{problem['code']}: {problem['detail']}"]
    for each in problem.get("errors", []):
        got = f", got {each['got']}" if each["got"] else ""
        wanted = f", expected {each['expected']}" if each["expected"] else ""
        hint = f" ({each['hint']})" if each["hint"] else ""
        lines.append(f"- {each['pointer'] or '/'}: {each['code']}{got}{wanted}{hint}")
    for other in problem.get("alternatives", []):
        lines.append(f"- instead: {other['model']} ({other['why']})")
    if problem.get("retry_after_s") is not None:
        lines.append(f"Try again after {problem['retry_after_s']} s.")
    return "\n".join([*lines, f"What to do: {problem['suggested_action']}"])


def _links(told: Mapping[str, Any]) -> Iterator[Body]:
    """Links to the files of an answer's results. Downloading one takes the caller's key."""
    waiting: list[Any] = [told]
    found = 0
    while waiting and found < MOST_LINKS:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, dict) and _is_file(value):
            found += 1
            yield {
                "type": "resource_link",
                "uri": f"{settings.BASE_URL}/v1/artifacts/{value['artifact']}/content",
                "name": value["name"],
                "description": f"Artifact {value['artifact']}; downloading it takes your API key.",
                "mimeType": value["media_type"],
                "size": value["size"],
            }
        elif isinstance(value, dict):
            waiting += reversed(value.values())


def _is_file(value: Mapping[str, Any]) -> bool:
    return {"artifact", "name", "media_type", "size", "sha256"} <= value.keys()

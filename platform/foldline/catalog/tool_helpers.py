"""Tools beside the models: for the jobs that calls become."""

from __future__ import annotations

from typing import Any

from foldline.catalog.tool_schemas import CALL_OPTIONS, OPTIONS, WAIT_S, answer_schema
from foldline.catalog.tools import Tool

MOST_JOBS = 100

_JOB_ID = {"type": "string", "maxLength": 64, "description": "`job_id` of an answer."}
_ID = "0199aa3c-7a10-7c4e-9d53-0e5f3b1c2d4e"

WAIT = Tool(
    name="wait_for_job",
    title="Wait for jobs",
    description="Waits until any or all of these jobs have ended, or until the time is over, and"
    " tells how each stands, with results. Call it when an answer says that its job is still queued"
    " or running, and again while one is. It is cheaper than asking repeatedly; give all jobs you"
    " wait for at once.",
    input_schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["job_ids"],
        "properties": {
            "job_ids": {"type": "array", "items": _JOB_ID, "minItems": 1, "maxItems": MOST_JOBS},
            "mode": {
                "enum": ["any", "all"],
                "default": "any",
                "description": "Whether one ended job is enough.",
            },
            "timeout_s": WAIT_S,
        },
    },
    output_schema={
        "type": "object",
        "required": ["done", "jobs"],
        "properties": {
            "done": {"type": "boolean", "description": "Whether any, or all, have ended."},
            "jobs": {"type": "array", "items": answer_schema(), "description": "As asked for."},
            "next": {"type": "string", "description": "What to do now."},
        },
    },
    examples=[{"job_ids": [_ID], "mode": "all", "timeout_s": 40}],
    read_only=True,
    idempotent=True,
)
GET = Tool(
    name="get_job",
    title="Look at a job",
    description="Tells how a job stands (state, place in the line, expected times, progress) and"
    " its result once it has one, without waiting. To wait, call wait_for_job.",
    input_schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["job_id"],
        "properties": {"job_id": _JOB_ID},
    },
    output_schema=answer_schema(),
    examples=[{"job_id": _ID}],
    read_only=True,
    idempotent=True,
)
CANCEL = Tool(
    name="cancel_job",
    title="Cancel a job",
    description="Cancels a job whose result is not wanted any more. One that runs stops within"
    " seconds; one that has ended stays as it is. Safe to repeat.",
    input_schema=GET.input_schema,
    output_schema=answer_schema(),
    examples=[{"job_id": _ID}],
    destructive=True,
    idempotent=True,
)


def estimate(names: list[str], example: dict[str, Any] | None) -> Tool:
    """The tool that asks what a call of one of these models would come to. `example`: one of
    its own arguments."""
    model: dict[str, Any] = {"type": "string", "description": "Name of the model's tool."}
    return Tool(
        name="estimate",
        title="Estimate a call",
        description="Checks a call without making it: whether the inputs are right, what it would"
        " use and cost, whether a quota refuses it, when it would start and end. Use it before a"
        " long or costly call, or to choose between models.",
        input_schema={
            "type": "object",
            "additionalProperties": False,
            "required": ["model", "inputs"],
            "properties": {
                "model": {**model, "enum": names} if names else model,
                "inputs": {"type": "object", "description": "As the model's own tool takes them."},
                OPTIONS: CALL_OPTIONS,
            },
        },
        output_schema={"type": "object"},
        examples=[example] if example else [],
        read_only=True,
        idempotent=True,
    )


def with_helpers(tools: list[Tool]) -> list[Tool]:
    """These models' tools and the helpers, which come last."""
    first = next((tool for tool in tools if tool.examples), None)
    example = {"model": first.name, "inputs": dict(first.examples[0])} if first else None
    return [*tools, WAIT, GET, CANCEL, estimate([tool.name for tool in tools], example)]


HELPERS = frozenset({WAIT.name, GET.name, CANCEL.name, "estimate"})

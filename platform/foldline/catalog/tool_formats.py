"""Tools in the words of OpenAI, Anthropic and MCP.

A tool that a vendor does not take would spoil the whole list: its API refuses every request
that carries it. Such a tool is adapted where that loses nothing but a check that Foldline makes
anyway, and else left out with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from foldline.catalog.tool_helpers import HELPERS, with_helpers
from foldline.catalog.tool_schemas import OPTIONS, Schema, schemas_in, with_wait
from foldline.catalog.tools import MOST_DESCRIPTION, Tool

Body = dict[str, Any]

NAME = re.compile(r"[a-z0-9_]{1,64}")
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMPOSED = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "$ref")
_FURTHER = "The model's own page, GET /v1/models/{name}, has further rules of the inputs."


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    name: str
    why: str


def exported(models: Iterable[Tool], *, form: str) -> Body:
    """The tools of models and the helpers in one of `FORMATS`; `left_out` says what is missing."""
    good: list[Tool] = []
    left_out: list[LeftOut] = []
    for tool in models:
        why = _misfit(tool, form=form)
        if why:
            left_out.append(LeftOut(name=tool.name, why=why))
        else:
            good.append(tool)
    tools = [FORMATS[form](tool) for tool in with_helpers(good)]
    return {"format": form, "tools": tools, "left_out": [asdict(each) for each in left_out]}


def _misfit(tool: Tool, *, form: str) -> str:
    """Why a tool cannot be told in this format; empty when it can."""
    if not NAME.fullmatch(tool.name):
        return "Its name is not made of a to z, 0 to 9 and _, 64 characters at most."
    if tool.name in HELPERS:
        return "A tool beside the models has its name."
    names = [
        str(name) for node in schemas_in(tool.input_schema) for name in node.get("properties", {})
    ]
    if names.count(OPTIONS) > 1:
        return f"One of its inputs is named {OPTIONS}, where a call's options stand."
    if form != "mcp" and not all(_KEY.fullmatch(name) for name in names):
        return "An input's name holds other characters than letters, digits, _, . and -."
    return ""


def openai(tool: Tool) -> Body:
    """The function tool of the Responses API. Never strict: there all members are required, and
    neither the inputs' defaults nor the call's options would be optional any more."""
    return {
        "type": "function",
        "name": tool.name,
        "description": _description(tool),
        "parameters": _plain(tool.input_schema),
        "output_schema": dict(tool.output_schema),
        "strict": False,
    }


def anthropic(tool: Tool) -> Body:
    """A custom tool of the Messages API."""
    told = {
        "name": tool.name,
        "description": _description(tool),
        "input_schema": {k: v for k, v in _plain(tool.input_schema).items() if k != "examples"},
    }
    return {**told, "input_examples": list(tool.examples)} if tool.examples else told


def mcp(tool: Tool) -> Body:
    """A tool of MCP 2026-07-28, which takes any JSON Schema."""
    schema = tool.input_schema
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": dict(schema) if tool.name in HELPERS else with_wait(schema),
        "outputSchema": dict(tool.output_schema),
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.read_only,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
            "openWorldHint": False,
        },
    }


FORMATS: Mapping[str, Callable[[Tool], Body]] = {
    "openai": openai,
    "anthropic": anthropic,
    "mcp": mcp,
}


def _plain(schema: Mapping[str, Any]) -> Schema:
    """Without keywords that combine schemas at the top: both vendors refuse them there."""
    return {key: value for key, value in schema.items() if key not in _COMPOSED}


def _description(tool: Tool) -> str:
    if not any(key in tool.input_schema for key in _COMPOSED):
        return tool.description
    further = _FURTHER.format(name=tool.name)
    room = MOST_DESCRIPTION - len(further) - 1
    return f"{tool.description[:room]} {further}"

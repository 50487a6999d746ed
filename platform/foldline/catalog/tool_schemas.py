"""A model's schemas as schemas of a tool: complete in themselves, and nothing in them that
only Foldline understands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = dict[str, Any]

OPTIONS = "_call"
"""The member of a tool's arguments that is no input of the model."""

MOST_WAIT_S = 45
USUAL_WAIT_S = 25
MOST_NEXT = 8

ARTIFACT = "The id of an artifact: a file you uploaded, or one another call returned."

_VALUES = frozenset({"default", "examples", "enum", "const", "required", "dependentRequired"})
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_DROPPED = frozenset({"$schema", "$id", "$comment"})
_BY_OWN_NAME = frozenset({"$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef"})

CALL_OPTIONS: Schema = {
    "type": "object",
    "additionalProperties": False,
    "description": "Options of the call itself; leave it out unless you need one.",
    "properties": {
        "seed": {
            "type": "integer",
            "minimum": 0,
            "description": "Same inputs and seed, same answer.",
        },
        "session": {
            "type": "string",
            "maxLength": 120,
            "description": "A name of your own that groups calls.",
        },
        "priority": {
            "enum": ["interactive", "batch"],
            "description": "`batch` lets calls that somebody waits for go first.",
        },
        "deadline_s": {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "Seconds from now after which the answer is worthless.",
        },
        "no_cache": {
            "type": "boolean",
            "description": "Compute it anew even if an equal call was answered before.",
        },
        "next": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": MOST_NEXT,
            "description": "Models you mean to call with the result; they may be loaded meanwhile.",
        },
        "on_unavailable": {
            "enum": ["fail", "suggest", "switch"],
            "description": "If the model takes no work now: `fail` at once, `suggest` others, or"
            " `switch` to one. Without it the call waits.",
        },
    },
}

WAIT_S: Schema = {
    "type": "number",
    "minimum": 0,
    "maximum": MOST_WAIT_S,
    "default": USUAL_WAIT_S,
    "description": f"Seconds to wait, at most {MOST_WAIT_S}.",
}

_ANSWER: Schema = {
    "job_id": {"type": "string", "description": "The job that answers this call."},
    "model": {"type": "string"},
    "state": {"enum": ["queued", "running", "succeeded", "failed", "cancelled", "expired"]},
    "message": {"type": "string", "description": "How it stands, in words."},
    "poll_after_s": {"type": "integer", "description": "Seconds until asking again makes sense."},
    "next": {"type": "string", "description": "What to do now."},
    "seed": {
        "type": "object",
        "description": "The seed that was used, and whose choice it was.",
        "properties": {"value": {"type": "integer"}, "origin": {"type": "string"}},
    },
    "warnings": {"type": "array", "items": {"type": "object"}},
    "alternatives": {
        "type": "array",
        "items": {"type": "object"},
        "description": "Models that could serve it while its own is away. Cancel this job first.",
    },
    "error": {"type": "object", "description": "Why there is no result (RFC 9457)."},
}


def with_options(schema: Mapping[str, Any]) -> Schema:
    """A model's input schema with room for the options of the call."""
    told = adapted(schema)
    told["properties"] = {**told.get("properties", {}), OPTIONS: CALL_OPTIONS}
    return told


def with_wait(schema: Mapping[str, Any]) -> Schema:
    """The same with one option more, for a call whose answer is waited for."""
    properties = schema["properties"]
    options = properties[OPTIONS]
    more = {**options, "properties": {**options["properties"], "wait_s": WAIT_S}}
    return {**schema, "properties": {**properties, OPTIONS: more}}


def answer_schema(result: Mapping[str, Any] | None = None) -> Schema:
    """What a tool answers: how the job stands and, once it has succeeded, the model's result."""
    place = "#/properties/result"
    known = result is not None and not any(_names_places(node) for node in schemas_in(result))
    described = adapted(result, root=place) if known and result is not None else {"type": "object"}
    told = {**described, "description": "What the model computed, once `state` is succeeded."}
    return {
        "type": "object",
        "required": ["job_id", "state"],
        "properties": {**_ANSWER, "result": told},
    }


def adapted(schema: Mapping[str, Any], *, root: str = "#") -> Schema:
    """Without Foldline's own keywords and format. `root`: where the schema will stand; its
    references point there."""
    told: Schema = {}
    for key, value in schema.items():
        if key in _DROPPED or key.startswith("x-"):
            continue
        told[key] = _moved(value, root) if key == "$ref" else _adapted(key, value, root)
    if told.get("format") == "artifact":
        del told["format"]
        told["description"] = f"{told.get('description', '')} {ARTIFACT}".strip()
    return told


def _adapted(key: str, value: Any, root: str) -> Any:
    return _below(key, value, lambda inner: adapted(inner, root=root))


def _moved(reference: str, root: str) -> str:
    return root + reference.removeprefix("#") if reference.startswith("#") else reference


def _below(key: str, value: Any, change: Callable[[Schema], Schema]) -> Any:
    """The value of a keyword with each schema in it changed."""
    if key in _VALUES:
        return value
    if key in _BY_NAME and isinstance(value, dict):
        return {name: change(s) if isinstance(s, dict) else s for name, s in value.items()}
    if isinstance(value, list):
        return [change(s) if isinstance(s, dict) else s for s in value]
    return change(value) if isinstance(value, dict) else value


def schemas_in(schema: Mapping[str, Any]) -> Iterator[Schema]:
    """Every schema in a schema, itself first."""
    found: list[Schema] = [dict(schema)]
    for node in found:

        def note(inner: Schema) -> Schema:
            found.append(inner)
            return inner

        for key, value in node.items():
            _below(key, value, note)
    return iter(found)


def _names_places(node: Schema) -> bool:
    """Whether it refers by names that would not survive a move."""
    reference = node.get("$ref", "#")
    return bool(_BY_OWN_NAME & node.keys()) or not (reference == "#" or reference[:2] == "#/")

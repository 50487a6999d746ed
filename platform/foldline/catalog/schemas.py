"""Input schemas, compiled once: check a call, fill in defaults, find the files it names.

Schemas come from third parties. The engine matches patterns in linear time, so that a
catastrophic one is harmless, and it never fetches a reference.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from uuid import UUID

import jsonschema_rs

from foldline.catalog.shapes import Shape, shape_of
from foldline.errors import finding, pointer

MAX_FINDINGS = 20
PATTERNS = jsonschema_rs.RegexOptions(size_limit=2**20, dfa_size_limit=2**21)

Finding = dict[str, str]

# The engine's keyword: our code, and what was expected (filled from the engine's details).
_SAID = {
    "type": ("wrong_type", "{types}"),
    "enum": ("not_allowed", "one of {options}"),
    "const": ("not_allowed", "{expected_value}"),
    "minimum": ("too_small", "at least {limit}"),
    "exclusiveMinimum": ("too_small", "more than {limit}"),
    "maximum": ("too_large", "at most {limit}"),
    "exclusiveMaximum": ("too_large", "less than {limit}"),
    "multipleOf": ("not_a_multiple", "a multiple of {multiple_of}"),
    "minLength": ("too_short", "at least {limit} characters"),
    "maxLength": ("too_long", "at most {limit} characters"),
    "minItems": ("too_few_items", "at least {limit} items"),
    "maxItems": ("too_many_items", "at most {limit} items"),
    "minProperties": ("too_few_fields", "at least {limit} fields"),
    "maxProperties": ("too_many_fields", "at most {limit} fields"),
    "uniqueItems": ("not_unique", "items that differ"),
    "pattern": ("pattern_mismatch", "text matching {pattern}"),
    "format": ("wrong_format", "text of format {format}"),
}


class SchemaRefused(Exception):
    """A schema that cannot be used. The text is one sentence for a person."""


class InputSchema:
    """A model's input schema, ready for many calls. Raises SchemaRefused."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._engine = _compiled(dict(schema))
        try:
            self._shape = shape_of(schema)
        except RecursionError as error:
            raise SchemaRefused("The schema's references go too deep.") from error

    def findings(self, inputs: Mapping[str, Any]) -> list[Finding]:
        """What is wrong with the inputs, at most 20 entries; empty when they are fine."""
        if self._engine.is_valid(inputs):
            return []
        errors = self._engine.iter_errors(inputs)
        found = (entry for error in errors for entry in _said(error, self._shape))
        return list(islice(found, MAX_FINDINGS))

    def normalized(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The inputs with defaults filled in and the ids of artifacts in their usual spelling; the
        same object when there is neither."""
        if self._shape.has_defaults:
            inputs = self._shape.filled(inputs)
        return self.with_artifacts(
            inputs, {name: _plain(name) for _, name in self.artifacts(inputs)}
        )

    def artifacts(self, inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Every (JSON pointer into the inputs, artifact id) the inputs name."""
        return list(self._shape.artifacts(inputs)) if self._shape.has_artifacts else []

    def with_artifacts(self, inputs: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
        """The inputs with every artifact id replaced by what `names` calls it."""
        if not names:
            return inputs
        renamed: dict[str, Any] = self._shape.renamed(inputs, names)
        return renamed


def _plain(name: str) -> str:
    """An id as we write it, of whatever case and with or without hyphens it came."""
    try:
        return str(UUID(name))
    except ValueError:
        return name


def _compiled(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    try:
        return jsonschema_rs.Draft202012Validator(schema, pattern_options=PATTERNS, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise SchemaRefused(_refusal(error)) from error


def _refusal(error: Exception) -> str:
    message = str(error).partition("\n")[0]
    if 'is not a "regex"' in message:
        pattern = message.removesuffix(' is not a "regex"')
        return (
            f"The pattern {pattern} cannot be used: patterns are matched in linear time, without"
            " look-around and back-references, and must not grow too large."
        )
    if "retriev" in message.lower():
        return f"The schema refers to something outside itself: {message}."
    return f"The schema is no JSON Schema 2020-12: {message}."


def _said(error: jsonschema_rs.ValidationError, shape: Shape) -> Iterator[Finding]:
    """An engine's error in our words; one entry for each unknown field."""
    path = list(error.instance_path)
    details = error.kind.as_dict()
    here = shape.at(path)
    if error.kind.name in ("additionalProperties", "unevaluatedProperties"):
        for name in details["unexpected"]:
            yield _unknown(path, name, here)
    elif error.kind.name == "required":
        name = details["property"]
        field = here.at([name])
        yield finding(_place(*path, name), "missing_field", hint=field.description)
    else:
        code, expected = _SAID.get(error.kind.name, ("invalid", f"what {error.kind.name} asks"))
        told = expected.format_map({name: _told(value) for name, value in details.items()})
        yield finding(_place(*path), code, got=error.instance, expected=told, hint=here.description)


def _unknown(path: list[str | int], name: str, shape: Shape) -> Finding:
    near = difflib.get_close_matches(name[:100], shape.properties, n=1)
    return finding(
        _place(*path, name),
        "unknown_field",
        got=name,
        expected=f"one of {', '.join(shape.properties)}"[:200],
        hint=f"Did you mean {near[0]!r}?" if near else "Leave it out.",
    )


def _place(*path: str | int) -> str:
    return pointer("inputs", *path)


def _told(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)[:200]
    return str(value)[:200]

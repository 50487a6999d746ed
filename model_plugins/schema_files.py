"""Reads a plugin's JSON Schemas as untrusted text: bounded, and complete in themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from model_plugins.manifest_fields import ManifestError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MAX_PATTERN = 512
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

Schema = dict[str, Any]


def read_schema(path: Path) -> Schema:
    """A JSON Schema 2020-12 for an object, with local references only. Raises ManifestError."""
    schema = _parsed(path)
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ManifestError(f'{path} must be a JSON Schema of "type": "object".', file=path)
    if schema.get("$schema", DIALECT) != DIALECT:
        raise ManifestError(f"{path} must be JSON Schema 2020-12.", file=path, key="$schema")
    for pointer, node in _objects(schema, path=path):
        _check_references(node, pointer, path=path)
        _check_patterns(node, pointer, path=path)
    return schema


def read_input_schema(path: Path) -> Schema:
    """A schema that closes its object and shows at least one complete example."""
    schema = read_schema(path)
    if schema.get("additionalProperties") is not False:
        raise ManifestError(
            f'{path} must say "additionalProperties": false, so that a misspelt field is refused.',
            file=path,
            key="additionalProperties",
        )
    examples = schema.get("examples")
    if not isinstance(examples, list) or not examples or not all(map(_is_object, examples)):
        raise ManifestError(
            f'{path} needs "examples" with at least one complete set of inputs.',
            file=path,
            key="examples",
        )
    return schema


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _parsed(path: Path) -> Any:
    if not path.is_file():
        raise ManifestError(f"{path} is missing.", file=path)
    body = path.read_bytes()
    if len(body) > MAX_BYTES:
        raise ManifestError(
            f"{path} has {len(body)} bytes; a schema has at most {MAX_BYTES}.", file=path
        )
    try:
        return json.loads(body, object_pairs_hook=_without_twins, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path} is not readable as JSON: {error}.", file=path) from error


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        keys = [key for key, _ in pairs]
        twin = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twin!r} stands twice in one object")
    return table


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _objects(root: Any, *, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object in the document with its JSON pointer; too deep a document is refused."""
    waiting: list[tuple[str, Any, int]] = [("#", root, 1)]
    while waiting:
        pointer, node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise ManifestError(f"{path} is nested more than {MAX_DEPTH} deep.", file=path)
        if isinstance(node, dict):
            yield pointer, node
            waiting += [(f"{pointer}/{key}", value, depth + 1) for key, value in node.items()]
        elif isinstance(node, list):
            waiting += [(f"{pointer}/{i}", value, depth + 1) for i, value in enumerate(node)]


def _check_references(node: dict[str, Any], pointer: str, *, path: Path) -> None:
    for key in REFERENCES:
        target = node.get(key)
        if isinstance(target, str) and not target.startswith("#"):
            raise ManifestError(
                f"{path} refers to {target!r} at {pointer}; only references inside the file "
                "(`#…`) are followed.",
                file=path,
                key=f"{pointer}/{key}",
            )


def _check_patterns(node: dict[str, Any], pointer: str, *, path: Path) -> None:
    named = node.get("patternProperties")
    patterns = list(named) if isinstance(named, dict) else []
    if isinstance(node.get("pattern"), str):
        patterns.append(node["pattern"])
    for pattern in patterns:
        if len(pattern) > MAX_PATTERN:
            raise ManifestError(
                f"{path} has a pattern of {len(pattern)} characters at {pointer}; "
                f"at most {MAX_PATTERN} are allowed.",
                file=path,
                key=f"{pointer}/pattern",
            )
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ManifestError(
                f"{path} has a pattern at {pointer} that is no regular expression: {error}.",
                file=path,
                key=f"{pointer}/pattern",
            ) from error

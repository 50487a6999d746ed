"""What a schema says about places: defaults, descriptions, and which fields name files.

Followed are `properties`, `items`, `$ref` and `allOf`; a default or artifact field inside
`anyOf`, `oneOf` or `if` is not seen.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from foldline.errors import pointer

HINT_CHARACTERS = 200


class Shape:
    """One place of a schema. A recursive schema gives a recursive shape."""

    def __init__(self) -> None:
        self.description = ""
        self.artifact = False
        self.defaults: dict[str, Any] = {}
        self.properties: dict[str, Shape] = {}
        self.items: Shape | None = None
        # Only meaningful at the root: whether anything below asks for work at all.
        self.has_defaults = False
        self.has_artifacts = False

    def at(self, path: Sequence[str | int]) -> Shape:
        """The shape of a place in the inputs; an empty one where the schema says nothing."""
        here = self
        for part in path:
            below = here.properties.get(str(part)) if isinstance(part, str) else here.items
            here = below or Shape()
        return here

    def filled(self, value: Any) -> Any:
        """A copy of the value with the defaults of absent fields, as complete as they stand."""
        if isinstance(value, dict):
            given = {name: self.at([name]).filled(inner) for name, inner in value.items()}
            absent = {name: d for name, d in self.defaults.items() if name not in given}
            return {**given, **copy.deepcopy(absent)}
        if isinstance(value, list) and self.items is not None:
            return [self.items.filled(inner) for inner in value]
        return value

    def artifacts(self, value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str, str]]:
        if self.artifact and isinstance(value, str):
            yield pointer(*path), value
        elif isinstance(value, Mapping):
            for name, below in self.properties.items():
                if name in value:
                    yield from below.artifacts(value[name], (*path, name))
        elif isinstance(value, list) and self.items is not None:
            for index, inner in enumerate(value):
                yield from self.items.artifacts(inner, (*path, index))

    def renamed(self, value: Any, names: Mapping[str, str]) -> Any:
        """A copy of the value with the artifact ids replaced."""
        if self.artifact and isinstance(value, str):
            return names[value]
        if isinstance(value, dict):
            return {name: self.at([name]).renamed(inner, names) for name, inner in value.items()}
        if isinstance(value, list) and self.items is not None:
            return [self.items.renamed(inner, names) for inner in value]
        return value


def shape_of(schema: Mapping[str, Any]) -> Shape:
    """The shape of a whole schema, which has been compiled before: its references resolve."""
    built: dict[int, Shape] = {}
    root = _build(schema, schema, built)
    root.has_defaults = any(shape.defaults for shape in built.values())
    root.has_artifacts = any(shape.artifact for shape in built.values())
    return root


def _build(schema: Any, root: Mapping[str, Any], built: dict[int, Shape]) -> Shape:
    if id(schema) in built:
        return built[id(schema)]
    shape = built[id(schema)] = Shape()
    for part in _parts(schema, root):
        shape.description = shape.description or str(part.get("description", ""))[:HINT_CHARACTERS]
        shape.artifact = shape.artifact or part.get("format") == "artifact"
        for name, inner in part.get("properties", {}).items():
            shape.properties[name] = _build(inner, root, built)
            if isinstance(inner, dict) and "default" in inner:
                shape.defaults[name] = inner["default"]
        if isinstance(part.get("items"), dict):
            shape.items = _build(part["items"], root, built)
    return shape


def _parts(schema: Any, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schema and everything it takes over by `$ref` and `allOf`, each once."""
    waiting, seen = [schema], set()
    while waiting:
        part = waiting.pop(0)
        if not isinstance(part, Mapping) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting += part.get("allOf", [])
        if isinstance(part.get("$ref"), str):
            waiting.append(_resolved(part["$ref"], root))


def _resolved(reference: str, root: Any) -> Any:
    """What a local reference names; nothing for an anchor."""
    here = root
    for part in unquote(reference.removeprefix("#")).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        here = here[int(name)] if isinstance(here, list) else here.get(name, {})
    return here if reference.startswith("#/") or reference == "#" else {}

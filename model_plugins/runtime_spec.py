"""The interpreter and packages that plugins ask for in `runtime.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from model_plugins.manifest_fields import (
    Field,
    ManifestError,
    a_name,
    checked,
    list_of,
    matching,
    one_of,
    read_toml,
)

_PIN = r"(==|~=|!=|>=|<=|>|<)\s*[0-9A-Za-z.*+!_-]+"
_python = matching(
    re.compile(rf"{_PIN}(\s*,\s*{_PIN})*"), "a Python version specifier such as >=3.11"
)
# No URLs, paths or options: pip would follow them.
_requirement = matching(
    re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?(\s*{_PIN}(\s*,\s*{_PIN})*)?"),
    "a package name, with a version if need be",
)

_RUNTIME = {
    "name": Field(check=a_name),
    "python": Field(check=_python, required=False, default=">=3.11"),
    "torch": Field(check=one_of("auto", "cpu", "none"), required=False, default="none"),
    "requirements": Field(check=list_of(_requirement), required=False, default=[]),
    "no_deps": Field(check=list_of(_requirement), required=False, default=[]),
}


@dataclass(frozen=True, kw_only=True)
class RuntimeSpec:
    """The environment one or more plugins run in."""

    name: str
    python: str
    torch: str
    requirements: tuple[str, ...]
    no_deps: tuple[str, ...]


def read_runtime(folder: Path) -> RuntimeSpec:
    """The runtime a plugin's folder asks for. Raises ManifestError."""
    file = folder / "runtime.toml"
    values = checked(read_toml(file), _RUNTIME, where="", file=file)
    values["requirements"] = tuple(values["requirements"])
    values["no_deps"] = tuple(values["no_deps"])
    return RuntimeSpec(**values)


def merge_runtimes(folders: Iterable[Path]) -> Mapping[str, RuntimeSpec]:
    """One runtime per name: the union of what its plugins require. Raises ManifestError when
    two of them want a different Python or torch."""
    merged: dict[str, tuple[Path, RuntimeSpec]] = {}
    for folder in folders:
        spec = read_runtime(folder)
        first, known = merged.get(spec.name, (folder, spec))
        for key in ("python", "torch"):
            if getattr(known, key) != getattr(spec, key):
                raise ManifestError(
                    f"The runtime `{spec.name}` has {key} {getattr(known, key)!r} in {first} and "
                    f"{getattr(spec, key)!r} in {folder}; plugins that share a runtime agree.",
                    file=folder / "runtime.toml",
                    key=key,
                )
        merged[spec.name] = (first, _union(known, spec))
    return {name: spec for name, (_, spec) in merged.items()}


def _union(one: RuntimeSpec, other: RuntimeSpec) -> RuntimeSpec:
    return replace(
        one,
        requirements=tuple(sorted({*one.requirements, *other.requirements})),
        no_deps=tuple(sorted({*one.no_deps, *other.no_deps})),
    )

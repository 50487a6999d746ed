"""What a plugin's folder says about itself, read without importing any of its code.

`manifest.toml` describes the model, `runtime.toml` the interpreter it needs, and the two
schemas its inputs and results. Every mistake is a `ManifestError` with one clear sentence.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_plugins.manifest_fields import (
    Field,
    ManifestError,
    a_name,
    checked,
    matching,
    one_of,
    read_toml,
    relative_path,
    text,
    whole,
    yes_or_no,
)
from model_plugins.runtime_spec import RuntimeSpec, merge_runtimes, read_runtime
from model_plugins.schema_files import Schema, read_input_schema, read_schema

__all__ = [
    "Manifest",
    "ManifestError",
    "RuntimeSpec",
    "Weight",
    "merge_runtimes",
    "read_manifest",
    "read_runtime",
]

_entry = matching(
    re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII),
    "`module:Class` inside the plugin's folder",
)
_package = matching(re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII), "the name of a top-level package")
_sha256 = matching(re.compile(r"[0-9a-f]{64}"), "64 lower-case hexadecimal digits")
_version = matching(re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,39}"), "a version such as 1.2.3")

_MODEL = {
    "name": Field(check=a_name),
    "title": Field(check=text(80)),
    "description": Field(check=text(4000)),
    "lane": Field(check=one_of("online", "long", "bulk")),
    "licence": Field(check=text(80)),
    "family": Field(check=text(48), required=False, default=""),
}
_PLUGIN = {
    "entry": Field(check=_entry),
    "runtime": Field(check=a_name),
    "version": Field(check=_version),
    "seed_default": Field(check=one_of("fixed", "random")),
    "max_batch_size": Field(check=whole(1, 256), required=False, default=1),
    "threads": Field(check=whole(1, 256), required=False, default=1),
    "load_timeout_s": Field(check=whole(1, 3600)),
    "run_timeout_s": Field(check=whole(1, 7 * 24 * 3600)),
    "memory_mb": Field(check=whole(1, 4 * 1024 * 1024)),
    "preflight": Field(check=yes_or_no, required=False, default=False),
}
_WEIGHT = {
    "name": Field(check=a_name),
    "package": Field(check=_package),
    "path": Field(check=relative_path),
    "sha256": Field(check=_sha256),
}


@dataclass(frozen=True, kw_only=True)
class Weight:
    """A weight file inside an installed package of the runtime, and the hash it must have."""

    name: str
    package: str
    path: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One model as its plugin's folder describes it."""

    folder: Path
    name: str
    title: str
    description: str
    lane: str
    licence: str
    family: str
    entry: str
    runtime: str
    version: str
    seed_default: str
    max_batch_size: int
    threads: int
    load_timeout_s: int
    run_timeout_s: int
    memory_mb: int
    preflight: bool
    weights: tuple[Weight, ...]
    input_schema: Schema
    output_schema: Schema
    digest: str


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a plugin's folder. Raises ManifestError; imports nothing of the plugin."""
    file = folder / "manifest.toml"
    document = _tables(file, "model", "plugin", "weights")
    model = checked(document.get("model"), _MODEL, where="model", file=file)
    plugin = checked(document.get("plugin"), _PLUGIN, where="plugin", file=file)
    _check_entry(folder, plugin["entry"], file=file)
    _check_runtime(folder, plugin["runtime"], file=file)
    return Manifest(
        folder=folder,
        **model,
        **plugin,
        weights=_weights(document.get("weights", []), file=file),
        input_schema=read_input_schema(folder / "input.schema.json"),
        output_schema=read_schema(folder / "output.schema.json"),
        digest=_digest(folder),
    )


def _tables(file: Path, *known: str) -> dict[str, Any]:
    document = read_toml(file)
    for table in document:
        if table not in known:
            raise ManifestError(
                f"{file} has an unknown table [{table}]; known are {', '.join(known)}.",
                file=file,
                key=table,
            )
    return document


def _check_entry(folder: Path, entry: str, *, file: Path) -> None:
    module = folder.joinpath(*entry.partition(":")[0].split("."))
    homes = (module.with_name(f"{module.name}.py"), module / "__init__.py")
    if not any(home.is_file() for home in homes):
        raise ManifestError(
            f"{file}: `plugin.entry` is {entry!r} but {module}.py does not exist.",
            file=file,
            key="plugin.entry",
        )


def _check_runtime(folder: Path, runtime: str, *, file: Path) -> None:
    if (folder / "runtime.toml").exists() and read_runtime(folder).name != runtime:
        raise ManifestError(
            f"{file}: `plugin.runtime` is {runtime!r} but runtime.toml beside it has another name.",
            file=file,
            key="plugin.runtime",
        )


def _weights(tables: Any, *, file: Path) -> tuple[Weight, ...]:
    if not isinstance(tables, list):
        raise ManifestError(f"{file}: write each weight as [[weights]].", file=file, key="weights")
    weights = tuple(
        Weight(**checked(table, _WEIGHT, where="weights", file=file)) for table in tables
    )
    names = [weight.name for weight in weights]
    for name in names:
        if names.count(name) > 1:
            raise ManifestError(
                f"{file} names two weights {name!r}.", file=file, key="weights.name"
            )
    return weights


def _digest(folder: Path) -> str:
    """SHA-256 over every .py, .toml and .json file with its relative name, in name order."""
    found = {
        path.relative_to(folder).as_posix(): path
        for suffix in ("py", "toml", "json")
        for path in folder.rglob(f"*.{suffix}")
        if path.is_file()
    }
    digest = hashlib.sha256()
    for name, path in sorted(found.items()):
        body = path.read_bytes()
        digest.update(f"{name}\0{len(body)}\0".encode() + body)
    return digest.hexdigest()

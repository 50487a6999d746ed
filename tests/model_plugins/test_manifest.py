from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model_plugins.manifest import ManifestError, merge_runtimes, read_manifest, read_runtime
from model_plugins.schema_files import MAX_BYTES, MAX_DEPTH

MANIFEST = """
[model]
name = "echo"
title = "Echo"
description = "Says what it is told."
lane = "online"
licence = "Apache-2.0"

[plugin]
entry = "plugin:Plugin"
runtime = "plain"
version = "1.0"
seed_default = "fixed"
load_timeout_s = 5
run_timeout_s = 5
memory_mb = 64

[[weights]]
name = "base"
package = "echo_weights"
path = "data/base.pt"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
"""
RUNTIME = 'name = "plain"\nrequirements = ["numpy", "einops>=0.8,<1"]\n'
INPUT: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"text": {"type": "string", "maxLength": 9}},
    "examples": [{"text": "hi"}],
}
Break = Callable[[Path], None]


def plugin_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "manifest.toml").write_text(MANIFEST)
    (folder / "runtime.toml").write_text(RUNTIME)
    (folder / "input.schema.json").write_text(json.dumps(INPUT))
    (folder / "output.schema.json").write_text('{"type": "object"}')
    (folder / "plugin.py").write_text("class Plugin: ...\n")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return plugin_folder(tmp_path / "echo")


def said(old: str, new: str) -> Break:
    def change(folder: Path) -> None:
        text = (folder / "manifest.toml").read_text()
        assert old in text
        (folder / "manifest.toml").write_text(text.replace(old, new))

    return change


def schema(**changes: Any) -> Break:
    def change(folder: Path) -> None:
        (folder / "input.schema.json").write_text(json.dumps({**INPUT, **changes}))

    return change


def written(name: str, text: str) -> Break:
    def change(folder: Path) -> None:
        (folder / name).write_text(text)

    return change


def deep(levels: int) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for _ in range(levels):
        nested = {"not": nested}
    return nested


BROKEN: dict[str, tuple[Break, str]] = {
    "name_climbs": (said('"echo"', '"../x"'), "`model.name` is '../x' but must be"),
    "name_upper_case": (said('"echo"', '"Echo"'), "`model.name` is 'Echo' but must be"),
    "name_too_long": (said('"echo"', f'"{"a" * 49}"'), "must be 1 to 48 lower-case letters"),
    "name_missing": (said('name = "echo"', ""), "does not say `model.name`"),
    "title_blank": (said('"Echo"', '"  "'), "must be a text of 1 to 80 characters"),
    "title_is_a_number": (said('"Echo"', "5"), "`model.title` is 5 but must be"),
    "lane_unknown": (said('"online"', '"fast"'), "must be one of online, long, bulk"),
    "key_unknown": (said("title", 'titel = "x"\ntitle'), "unknown key `model.titel`"),
    "table_unknown": (said("[plugin]", "[extra]\n[plugin]"), "unknown table [extra]"),
    "table_missing": (written("manifest.toml", "[plugin]"), "needs a table [model]"),
    "number_as_text": (said("= 64", '= "64"'), "`plugin.memory_mb` is '64' but must be"),
    "number_is_true": (said("= 64", "= true"), "must be a whole number from 1"),
    "number_is_zero": (said("memory_mb = 64", "memory_mb = 0"), "must be a whole number from 1"),
    "seed_default": (said('"fixed"', '"any"'), "must be one of fixed, random"),
    "entry_form": (said('"plugin:Plugin"', '"plugin.Plugin"'), "must be `module:Class`"),
    "entry_climbs": (said('"plugin:Plugin"', '"..plugin:Plugin"'), "must be `module:Class`"),
    "entry_missing": (said('"plugin:Plugin"', '"model:Plugin"'), "model.py does not exist"),
    "runtime_differs": (said('"plain"', '"other"'), "runtime.toml beside it has another name"),
    "weights_hash": (said('sha256 = "0', 'sha256 = "g'), "64 lower-case hexadecimal digits"),
    "weights_climb": (said("data/base", "../base"), "must be a relative path without `..`"),
    "weights_absolute": (said("data/base", "/base"), "must be a relative path without `..`"),
    "weights_package": (said('"echo_weights"', '"../etc"'), "name of a top-level package"),
    "weights_table": (said("[[weights]]", "[weights]"), "write each weight as [[weights]]"),
    "weights_twice": (
        written("manifest.toml", MANIFEST + MANIFEST[MANIFEST.index("[[") :]),
        "names two weights 'base'",
    ),
    "not_toml": (written("manifest.toml", "name: echo"), "is not readable as TOML"),
    "too_big": (written("manifest.toml", "#" * 70_000), "at most 65536 are read"),
    "runtime_option": (
        written("runtime.toml", 'name = "plain"\nrequirements = ["--index-url=http://x"]'),
        "each item is a package name",
    ),
    "runtime_url": (
        written("runtime.toml", 'name = "plain"\nno_deps = ["x @ https://x/x.whl"]'),
        "each item is a package name",
    ),
    "schema_missing": (
        lambda folder: (folder / "output.schema.json").unlink(),
        "output.schema.json is missing",
    ),
    "schema_not_json": (written("input.schema.json", "{"), "is not readable as JSON"),
    "schema_not_finite": (
        written("input.schema.json", '{"maximum": Infinity}'),
        "Infinity is no JSON",
    ),
    "schema_key_twice": (
        written("input.schema.json", '{"type": "object", "type": "object"}'),
        "the key 'type' stands twice",
    ),
    "schema_of_a_list": (schema(type="array"), 'must be a JSON Schema of "type": "object"'),
    "schema_dialect": (schema(**{"$schema": "http://x"}), "must be JSON Schema 2020-12"),
    "schema_open": (schema(additionalProperties=True), '"additionalProperties": false'),
    "schema_without_example": (schema(examples=[]), 'needs "examples"'),
    "schema_remote_ref": (
        schema(properties={"text": {"$ref": "https://example.org/x.json"}}),
        "refers to 'https://example.org/x.json' at #/properties/text",
    ),
    "schema_file_ref": (schema(properties={"a": {"$ref": "other.json"}}), "refers to 'other.json'"),
    "schema_dynamic_ref": (schema(**{"$dynamicRef": "x.json"}), "refers to 'x.json'"),
    "pattern_too_long": (
        schema(properties={"text": {"pattern": "a" * 513}}),
        "a pattern of 513 characters at #/properties/text",
    ),
    "pattern_broken": (schema(properties={"text": {"pattern": "("}}), "is no regular expression"),
    "pattern_in_keys": (schema(patternProperties={"[": {}}), "is no regular expression"),
    "schema_too_deep": (schema(**deep(MAX_DEPTH)), "nested more than 32 deep"),
    "schema_absurdly_deep": (
        written("input.schema.json", '{"not":' * 20_000 + "1" + "}" * 20_000),
        "is not readable as JSON",
    ),
    "schema_too_big": (schema(title="x" * MAX_BYTES), "a schema has at most 262144"),
}


def test_a_complete_folder_is_read(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert (manifest.name, manifest.lane, manifest.entry) == ("echo", "online", "plugin:Plugin")
    assert (manifest.threads, manifest.max_batch_size, manifest.family) == (1, 1, "")
    assert manifest.weights[0].path == "data/base.pt"
    assert manifest.input_schema == INPUT


@pytest.mark.parametrize("name", BROKEN)
def test_a_mistake_is_told_in_one_sentence(folder: Path, name: str) -> None:
    spoil, sentence = BROKEN[name]
    spoil(folder)
    with pytest.raises(ManifestError) as told:
        read_manifest(folder)
    text = str(told.value)
    assert sentence in text
    assert "\n" not in text.strip()
    assert text.endswith(".")
    assert Path(told.value.file).parent == folder


def test_a_missing_manifest_is_told(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"manifest\.toml is missing"):
        read_manifest(tmp_path)


def test_the_key_of_a_mistake_is_named(folder: Path) -> None:
    said('"online"', '"fast"')(folder)
    with pytest.raises(ManifestError) as told:
        read_manifest(folder)
    assert told.value.key == "model.lane"


def test_a_reference_inside_the_schema_is_fine(folder: Path) -> None:
    schema(properties={"text": {"$ref": "#/$defs/t"}}, **{"$defs": {"t": {"maxLength": 9}}})(folder)
    assert read_manifest(folder).name == "echo"


def test_a_field_may_be_called_pattern_or_ref(folder: Path) -> None:
    schema(properties={"pattern": {"maxLength": 9}, "$ref": {"maxLength": 9}})(folder)
    assert read_manifest(folder).name == "echo"


def test_the_digest_follows_every_file_that_decides(folder: Path) -> None:
    before = read_manifest(folder).digest
    (folder / "notes.txt").write_text("nothing")
    assert read_manifest(folder).digest == before
    (folder / "helper.py").write_text("")
    with_helper = read_manifest(folder).digest
    (folder / "helper.py").rename(folder / "other.py")
    assert len({before, with_helper, read_manifest(folder).digest}) == 3


def test_a_runtime_is_read_with_its_defaults(folder: Path) -> None:
    spec = read_runtime(folder)
    assert (spec.name, spec.python, spec.torch) == ("plain", ">=3.11", "none")
    assert spec.requirements == ("numpy", "einops>=0.8,<1")
    assert spec.no_deps == ()


def test_plugins_of_one_runtime_are_merged(folder: Path, tmp_path: Path) -> None:
    other = plugin_folder(tmp_path / "other")
    (other / "runtime.toml").write_text(
        'name = "plain"\nrequirements = ["numpy", "scipy"]\nno_deps = ["x==1"]'
    )
    spec = merge_runtimes([folder, other])["plain"]
    assert spec.requirements == ("einops>=0.8,<1", "numpy", "scipy")
    assert spec.no_deps == ("x==1",)


@pytest.mark.parametrize("line", ['torch = "cpu"', 'python = ">=3.12"'])
def test_plugins_that_share_a_runtime_must_agree(folder: Path, tmp_path: Path, line: str) -> None:
    other = plugin_folder(tmp_path / "other")
    (other / "runtime.toml").write_text(f'name = "plain"\n{line}')
    with pytest.raises(ManifestError, match=r"plugins that share a runtime agree") as told:
        merge_runtimes([folder, other])
    assert str(folder) in str(told.value)
    assert str(other) in str(told.value)

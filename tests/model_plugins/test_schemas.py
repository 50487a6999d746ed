"""The schemas of the built-in models are complete and true to their own examples."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest

from model_plugins.manifest import Manifest
from model_plugins.registry import BUILTIN_ROOT, discover
from model_plugins.testing import incomplete_fields

MANIFESTS = {manifest.name: manifest for manifest in discover([BUILTIN_ROOT]).found}


@pytest.fixture(params=MANIFESTS)
def manifest(request: pytest.FixtureRequest) -> Manifest:
    return MANIFESTS[request.param]


def test_both_schemas_are_json_schema_2020_12(manifest: Manifest) -> None:
    for schema in (manifest.input_schema, manifest.output_schema):
        jsonschema_rs.meta.validate(schema)


def test_every_input_field_has_unit_limit_and_example(manifest: Manifest) -> None:
    assert incomplete_fields(manifest.input_schema) == {}


def test_every_example_fits_its_schema(manifest: Manifest) -> None:
    schema = manifest.input_schema
    for example in schema["examples"]:
        jsonschema_rs.validate(schema, example)
    for name, field in schema["properties"].items():
        for example in field["examples"]:
            jsonschema_rs.validate(field, example)
            assert name not in schema["required"] or example is not None


def test_every_default_fits_its_field(manifest: Manifest) -> None:
    for field in manifest.input_schema["properties"].values():
        if "default" in field:
            jsonschema_rs.validate(field, field["default"])


def test_an_unknown_field_is_refused(manifest: Manifest) -> None:
    example = {**manifest.input_schema["examples"][0], "sede": 1}
    assert not jsonschema_rs.is_valid(manifest.input_schema, example)


def test_every_output_field_is_described(manifest: Manifest) -> None:
    for name, field in manifest.output_schema["properties"].items():
        assert field["description"], name
        assert name in manifest.output_schema["required"]


def test_files_look_the_same_in_every_result() -> None:
    shapes = {
        json.dumps(manifest.output_schema["$defs"]["file"]) for manifest in MANIFESTS.values()
    }
    assert len(shapes) == 1


def test_each_model_has_a_file_for_each_artifact_of_its_example(manifest: Manifest) -> None:
    examples = Path(manifest.folder) / "examples"
    for name, field in manifest.input_schema["properties"].items():
        if field.get("format") == "artifact":
            assert len(list(examples.glob(f"{name}.*"))) == 1

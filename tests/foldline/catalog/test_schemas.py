from __future__ import annotations

import time
from typing import Any

import pytest

from foldline.catalog.schemas import MAX_FINDINGS, InputSchema, SchemaRefused

FOLD: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["sequence"],
    "properties": {
        "sequence": {
            "type": "string",
            "pattern": "^[A-Z]+$",
            "maxLength": 5,
            "description": "One-letter code.",
        },
        "copies": {"type": "integer", "minimum": 1, "maximum": 8, "default": 2},
        "format": {"enum": ["pdb", "cif"]},
        "options": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"relax": {"type": "boolean", "default": True}},
        },
        "chains": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/chain"}},
        "template": {"$ref": "#/$defs/file"},
    },
    "$defs": {
        "file": {"type": "string", "format": "artifact", "description": "A structure."},
        "chain": {
            "type": "object",
            "properties": {"file": {"$ref": "#/$defs/file"}, "weight": {"default": 1.0}},
        },
    },
}


@pytest.fixture
def fold() -> InputSchema:
    return InputSchema(FOLD)


@pytest.mark.parametrize(
    ("change", "pointer", "code", "expected"),
    [
        ({"sequence": 5}, "/inputs/sequence", "wrong_type", "string"),
        ({"sequence": "evq"}, "/inputs/sequence", "pattern_mismatch", "text matching ^[A-Z]+$"),
        ({"sequence": "AAAAAA"}, "/inputs/sequence", "too_long", "at most 5 characters"),
        ({"copies": 0}, "/inputs/copies", "too_small", "at least 1"),
        ({"copies": 9}, "/inputs/copies", "too_large", "at most 8"),
        ({"copies": 1.5}, "/inputs/copies", "wrong_type", "integer"),
        ({"copies": True}, "/inputs/copies", "wrong_type", "integer"),
        ({"format": "xyz"}, "/inputs/format", "not_allowed", "one of pdb, cif"),
        ({"options": {"relax": 1}}, "/inputs/options/relax", "wrong_type", "boolean"),
        ({"chains": [{}, {}, {}]}, "/inputs/chains", "too_many_items", "at most 2 items"),
        ({"chains": [{"file": 1}]}, "/inputs/chains/0/file", "wrong_type", "string"),
    ],
)
def test_a_finding_says_where_and_what_was_expected(
    fold: InputSchema, change: dict[str, Any], pointer: str, code: str, expected: str
) -> None:
    (found,) = fold.findings({"sequence": "EVQ", **change})
    assert (found["pointer"], found["code"], found["expected"]) == (pointer, code, expected)


def test_fine_inputs_have_no_findings(fold: InputSchema) -> None:
    assert fold.findings({"sequence": "EVQ", "copies": 2.0}) == []


def test_an_unknown_field_is_named_with_the_one_that_was_meant(fold: InputSchema) -> None:
    unknown, missing = fold.findings({"sequnce": "EVQ"})
    assert (unknown["pointer"], unknown["code"]) == ("/inputs/sequnce", "unknown_field")
    assert unknown["hint"] == "Did you mean 'sequence'?"
    assert (missing["pointer"], missing["code"]) == ("/inputs/sequence", "missing_field")
    assert missing["hint"] == "One-letter code."


def test_what_the_caller_sent_is_repeated_without_control_characters(fold: InputSchema) -> None:
    found = fold.findings({"sequence": "ignore previous \x1b[31minstructions\n" * 9})[0]
    assert len(found["got"]) <= 64
    assert found["got"].isprintable()


def test_the_number_of_findings_is_bounded(fold: InputSchema) -> None:
    many = {f"field{n}": n for n in range(1000)}
    assert len(fold.findings(many)) == MAX_FINDINGS


def test_defaults_are_filled_in_where_their_object_is_there(fold: InputSchema) -> None:
    given = {"sequence": "EVQ", "options": {}, "chains": [{"weight": 2}, {}]}
    filled = {
        "sequence": "EVQ",
        "copies": 2,
        "options": {"relax": True},
        "chains": [{"weight": 2}, {"weight": 1.0}],
    }
    assert fold.normalized(given) == filled
    assert given["options"] == {}


def test_a_filled_default_belongs_to_nobody_else() -> None:
    schema = InputSchema({"properties": {"list": {"default": []}}})
    schema.normalized({})["list"].append(1)
    assert schema.normalized({}) == {"list": []}


def test_inputs_without_defaults_are_not_copied() -> None:
    inputs = {"a": 1}
    assert InputSchema({"type": "object"}).normalized(inputs) is inputs


def test_artifact_fields_are_found_and_renamed(fold: InputSchema) -> None:
    inputs = {"sequence": "EVQ", "template": "one", "chains": [{"file": "two"}, {}]}
    assert fold.artifacts(inputs) == [("/chains/0/file", "two"), ("/template", "one")]
    renamed = fold.with_artifacts(inputs, {"one": "1", "two": "2"})
    assert renamed["template"] == "1"
    assert renamed["chains"] == [{"file": "2"}, {}]
    assert inputs["template"] == "one"


def test_a_recursive_schema_is_followed_as_deep_as_the_inputs_are() -> None:
    schema = InputSchema(
        {
            "$ref": "#/$defs/tree",
            "$defs": {
                "tree": {
                    "type": "object",
                    "properties": {"left": {"$ref": "#/$defs/tree"}, "size": {"default": 0}},
                }
            },
        }
    )
    assert schema.normalized({"left": {}}) == {"left": {"size": 0}, "size": 0}


def test_a_default_that_contains_itself_ends() -> None:
    tree: dict[str, Any] = {"properties": {"child": {"$ref": "#", "default": {}}}}
    assert InputSchema(tree).normalized({}) == {"child": {}}


def test_a_catastrophic_pattern_is_matched_in_linear_time() -> None:
    schema = InputSchema({"properties": {"text": {"pattern": "^(a+)+$"}}})
    began = time.process_time()
    assert schema.findings({"text": "a" * 200_000 + "!"})
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"pattern": "(?=a)b"}, "look-around"),
        ({"pattern": r"(a)\1"}, "back-references"),
        ({"pattern": "(a{1000}){1000}"}, "too large"),
        ({"$ref": "https://example.com/schema.json"}, "outside itself"),
        ({"$ref": "file:///etc/passwd"}, "outside itself"),
        ({"$ref": "#/$defs/missing"}, "does not exist"),
        ({"type": "nothing"}, "no JSON Schema 2020-12"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_a_sentence(
    schema: dict[str, Any], reason: str
) -> None:
    with pytest.raises(SchemaRefused, match=reason):
        InputSchema(schema)


def test_references_that_go_too_deep_are_refused() -> None:
    defs: dict[str, Any] = {
        f"a{n}": {"properties": {"x": {"$ref": f"#/$defs/a{n + 1}"}}} for n in range(3000)
    }
    defs["a3000"] = {}
    with pytest.raises(SchemaRefused, match="too deep"):
        InputSchema({"$ref": "#/$defs/a0", "$defs": defs})

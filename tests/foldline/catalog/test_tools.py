"""Tools as the vendors' own packages take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jsonschema_rs
import mcp_types
import pytest
from anthropic.types import ToolParam
from openai.types.responses import FunctionToolParam
from pydantic import ConfigDict, TypeAdapter, with_config

from foldline.catalog.models import Revision
from foldline.catalog.selectors import LiveModel, live_model
from foldline.catalog.tool_formats import FORMATS, NAME, exported
from foldline.catalog.tool_schemas import adapted, answer_schema, schemas_in, with_options
from foldline.catalog.tools import MOST_DESCRIPTION, Pace, in_words, tool_of
from foldline.environment import ROOT
from tests.conftest import SEQUENCE_SCHEMA

pytestmark = pytest.mark.django_db

MakeLive = Callable[..., Revision]
HELPERS = ["wait_for_job", "get_job", "cancel_job", "estimate"]
ARTIFACT_ID = "0199aa3c-7a10-7c4e-9d53-0e5f3b1c2d4e"

with_config(ConfigDict(extra="forbid"))(FunctionToolParam)
with_config(ConfigDict(extra="forbid"))(ToolParam)
OPENAI = TypeAdapter(FunctionToolParam)
ANTHROPIC = TypeAdapter(ToolParam)


def vendor_takes(form: str, tool: Mapping[str, Any]) -> None:
    """Raises where the vendor's own types do not fit."""
    if form == "openai":
        OPENAI.validate_python(tool)
    elif form == "anthropic":
        ANTHROPIC.validate_python(tool)
    else:
        taken = mcp_types.Tool.model_validate(tool, by_name=False)
        assert taken.model_dump(by_alias=True, exclude_none=True, exclude_unset=True) == tool


def input_of(form: str, tool: Mapping[str, Any]) -> Mapping[str, Any]:
    key = {"openai": "parameters", "anthropic": "input_schema", "mcp": "inputSchema"}[form]
    schema: Mapping[str, Any] = tool[key]
    return schema


def export(form: str, *models: LiveModel, pace: Pace | None = None) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = exported([tool_of(m, pace=pace) for m in models], form=form)[
        "tools"
    ]
    return tools


@pytest.fixture
def built_in(live_revision: MakeLive) -> Sequence[LiveModel]:
    names = ("flash_abb", "proteinmpnn", "structure_score")
    for name in names:
        live_revision(folder=ROOT / "model_plugins" / name)
    return [live_model(name) for name in names]


@pytest.fixture
def toy(live_revision: MakeLive) -> Callable[..., LiveModel]:
    def make(**changes: Any) -> LiveModel:
        live_revision(**changes)
        return live_model(changes.get("name", "toy"))

    return make


@pytest.mark.parametrize("form", FORMATS)
def test_each_vendors_own_types_take_every_tool(form: str, built_in: Sequence[LiveModel]) -> None:
    tools = export(form, *built_in)
    assert [tool["name"] for tool in tools] == [*(model.name for model in built_in), *HELPERS]
    for tool in tools:
        vendor_takes(form, tool)
        assert NAME.fullmatch(tool["name"])
        assert 0 < len(tool["description"]) <= MOST_DESCRIPTION
        schema = input_of(form, tool)
        assert schema["type"] == "object"
        jsonschema_rs.Draft202012Validator(dict(schema), offline=True)


@pytest.mark.parametrize("form", FORMATS)
def test_the_types_would_notice_a_wrong_member(form: str, toy: Callable[..., LiveModel]) -> None:
    tool, *_ = export(form, toy())
    with pytest.raises((ValueError, AssertionError)):
        vendor_takes(form, {**tool, "colour": "red"})
    with pytest.raises((ValueError, AssertionError)):
        vendor_takes(form, {name: value for name, value in tool.items() if name != "name"})


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_in_a_tool_is_understood_by_foldline_alone(
    form: str, built_in: Sequence[LiveModel]
) -> None:
    for tool in export(form, *built_in):
        for node in schemas_in(input_of(form, tool)):
            assert node.get("format") != "artifact"
            assert not [key for key in node if key.startswith("x-") or key == "$schema"]


def test_an_input_that_is_a_file_says_so_in_words(toy: Callable[..., LiveModel]) -> None:
    tool, *_ = export("mcp", toy())
    place = tool["inputSchema"]["properties"]["template"]
    assert place == {
        "type": "string",
        "description": "A structure. The id of an artifact: a file you uploaded, or one another"
        " call returned.",
    }


def test_every_example_fits_the_schema_it_stands_beside(built_in: Sequence[LiveModel]) -> None:
    shown = 0
    for tool in export("anthropic", *built_in):
        check = jsonschema_rs.Draft202012Validator(tool["input_schema"])
        for example in tool["input_examples"]:
            shown += 1
            assert check.is_valid(example), tool["name"]
    assert shown >= len(built_in) + len(HELPERS)


def test_an_example_that_does_not_fit_is_not_shown(toy: Callable[..., LiveModel]) -> None:
    schema = {**SEQUENCE_SCHEMA, "examples": [{"sequence": "EVQ"}, {"sequence": 7}]}
    tool, *_ = export("anthropic", toy(input_schema=schema))
    assert tool["input_examples"] == [{"sequence": "EVQ"}]


@pytest.mark.parametrize(
    ("changes", "pace", "words"),
    [
        ({}, None, "It answers within seconds to minutes; a first call also waits"),
        ({"lane": "long"}, None, "It takes minutes, up to half an hour"),
        ({}, (17.0, 41.0, 70.0), "Takes about 20 s, 9 of 10 within 50 s; while no worker is"),
        ({}, (17.0, 19.0, 70.0), "Takes about 20 s; while no worker is loaded, about 2 min more."),
        ({"seed_default": "random"}, None, "30 equal calls give 30 different designs unless you"),
        ({"seed_default": "fixed"}, None, "Seed fixed: equal calls give the same answer"),
        ({"lane": "long", "run_timeout_s": 1800}, None, "Lane long; a call runs 30 min at most."),
    ],
)
def test_a_description_says_what_to_expect(
    changes: dict[str, Any],
    pace: tuple[float, ...] | None,
    words: str,
    toy: Callable[..., LiveModel],
) -> None:
    known = Pace(run_p50_s=pace[0], run_p90_s=pace[1], load_s=pace[2]) if pace else None
    tool, *_ = export("openai", toy(**changes), pace=known)
    assert tool["description"].startswith("Answers quickly. ")
    assert words in tool["description"]


def test_a_long_description_is_cut_at_a_word_and_keeps_the_facts(
    toy: Callable[..., LiveModel],
) -> None:
    tool, *_ = export("openai", toy(description="Folds many things. " * 200))
    assert len(tool["description"]) <= MOST_DESCRIPTION
    assert "Folds many… It answers" in tool["description"].replace("things…", "many…")
    assert tool["description"].endswith("60 s at most.")


def test_times_are_rounded_so_that_the_words_stay_the_same() -> None:
    said = [in_words(s) for s in (0.01, 1, 1.2, 4, 14, 19, 21, 51, 61, 170, 1700, 9000)]
    assert said == [
        "1 s", "1 s", "2 s", "5 s", "20 s", "20 s", "30 s", "1 min", "2 min", "3 min", "30 min",
        "3 h",
    ]  # fmt: skip


def test_the_options_of_a_call_stand_in_one_member_that_is_no_input(
    toy: Callable[..., LiveModel],
) -> None:
    model = toy()
    for form in FORMATS:
        tool, *_ = export(form, model)
        schema = input_of(form, tool)
        options = schema["properties"]["_call"]["properties"]
        assert {"seed", "session", "priority", "deadline_s", "no_cache"} <= options.keys()
        assert {"next", "on_unavailable"} <= options.keys()
        assert ("wait_s" in options) is (form == "mcp")
        assert schema["required"] == ["sequence"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_model_with_an_input_of_that_name_is_left_out_with_the_reason(
    form: str, toy: Callable[..., LiveModel]
) -> None:
    properties = {**SEQUENCE_SCHEMA["properties"], "sub": {"properties": {"_call": {}}}}
    model = toy(input_schema={**SEQUENCE_SCHEMA, "properties": properties})
    told = exported([tool_of(model, pace=None)], form=form)
    assert [tool["name"] for tool in told["tools"]] == HELPERS
    assert told["left_out"] == [
        {"name": "toy", "why": "One of its inputs is named _call, where a call's options stand."}
    ]


def test_a_model_does_not_take_the_name_of_a_helper(toy: Callable[..., LiveModel]) -> None:
    told = exported([tool_of(toy(name="estimate"), pace=None)], form="mcp")
    assert [tool["name"] for tool in told["tools"]] == HELPERS
    assert told["left_out"][0]["name"] == "estimate"


def test_an_input_whose_name_the_vendors_refuse_is_left_out_there(
    toy: Callable[..., LiveModel],
) -> None:
    properties = {**SEQUENCE_SCHEMA["properties"], "Δ G": {"type": "number"}}
    model = toy(input_schema={**SEQUENCE_SCHEMA, "properties": properties})
    names = {f: exported([tool_of(model, pace=None)], form=f)["left_out"] for f in FORMATS}
    assert [bool(names[form]) for form in ("openai", "anthropic", "mcp")] == [True, True, False]


def test_alternatives_at_the_top_are_kept_for_mcp_and_told_in_words_elsewhere(
    toy: Callable[..., LiveModel],
) -> None:
    either = {"anyOf": [{"required": ["template"]}, {"required": ["copies"]}]}
    model = toy(input_schema={**SEQUENCE_SCHEMA, **either})
    for form in FORMATS:
        tool, *_ = export(form, model)
        vendor_takes(form, tool)
        assert ("anyOf" in input_of(form, tool)) is (form == "mcp")
        assert ("GET /v1/models/toy" in tool["description"]) is (form != "mcp")


def test_references_inside_a_schema_are_kept(toy: Callable[..., LiveModel]) -> None:
    schema = {
        **SEQUENCE_SCHEMA,
        "properties": {**SEQUENCE_SCHEMA["properties"], "chain": {"$ref": "#/$defs/chain"}},
        "$defs": {"chain": {"type": "string", "pattern": "^[A-Z]$", "x-unit": "chain"}},
    }
    told = with_options(schema)
    check = jsonschema_rs.Draft202012Validator(told)
    assert check.is_valid({"sequence": "A", "chain": "L"})
    assert not check.is_valid({"sequence": "A", "chain": "long"})
    assert told["$defs"]["chain"] == {"type": "string", "pattern": "^[A-Z]$"}


def test_an_answers_schema_holds_the_models_own_with_its_references(
    built_in: Sequence[LiveModel],
) -> None:
    model = next(m for m in built_in if m.name == "proteinmpnn")
    told = dict(tool_of(model, pace=None).output_schema)
    check = jsonschema_rs.Draft202012Validator(told)
    open_call = {"job_id": ARTIFACT_ID, "state": "running", "message": "Running."}
    assert check.is_valid(open_call)
    wrong = {**open_call, "state": "succeeded", "result": {"designs": {"artifact": 7}}}
    places = ["/".join(map(str, error.instance_path)) for error in check.iter_errors(wrong)]
    assert "result/designs/artifact" in places


def test_references_by_name_would_not_survive_so_the_result_is_any_object() -> None:
    place = {"$defs": {"a": {"$anchor": "here"}}, "properties": {"a": {"$ref": "#here"}}}
    named = {"type": "object", **place}
    told = answer_schema(named)["properties"]["result"]
    assert told["type"] == "object"
    assert "properties" not in told


def test_a_field_that_is_called_like_a_keyword_stays() -> None:
    schema = {
        "type": "object",
        "properties": {"x-ray": {"type": "string"}, "format": {"type": "string"}, "$id": {}},
        "examples": [{"x-ray": "yes", "$schema": "no"}],
    }
    assert adapted(schema) == schema


def test_only_what_changes_nothing_calls_itself_read_only(toy: Callable[..., LiveModel]) -> None:
    hints = {tool["name"]: tool["annotations"] for tool in export("mcp", toy())}
    read_only = [name for name, hint in hints.items() if hint["readOnlyHint"]]
    assert read_only == ["wait_for_job", "get_job", "estimate"]
    assert [name for name, hint in hints.items() if hint["destructiveHint"]] == ["cancel_job"]
    assert hints["toy"]["idempotentHint"] is True
    drawn, *_ = export("mcp", toy(name="drawn", seed_default="random"))
    assert drawn["annotations"]["idempotentHint"] is False

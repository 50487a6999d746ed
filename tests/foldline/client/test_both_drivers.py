"""The sync and the async client are one client."""

from __future__ import annotations

import inspect

from foldline.client import AsyncFoldline, Foldline
from tests.architecture.test_light_imports import modules_after


def public(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method).replace(return_annotation=None)
        for name, method in vars(kind).items()
        if callable(method) and not name.startswith("_")
    }


def test_they_have_the_same_methods_with_the_same_arguments() -> None:
    assert public(Foldline) == public(AsyncFoldline)
    assert {name: vars(Foldline)[name].__doc__ for name in public(Foldline)} == {
        name: vars(AsyncFoldline)[name].__doc__ for name in public(AsyncFoldline)
    }


def test_the_client_needs_nothing_of_the_house() -> None:
    held = modules_after("import foldline.client, foldline.client.cli.commands")
    ours = {name for name in held if name.startswith("foldline.")}
    assert {name for name in ours if not name.startswith("foldline.client")} == set()
    assert held & {"django", "celery", "redis", "model_plugins", "tasks", "scaler"} == set()


def test_a_program_that_only_calls_loads_no_command_line() -> None:
    assert modules_after("import foldline.client") & {"typer", "foldline.client.cli"} == set()

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from foldline import fresh
from foldline.catalog.models import Revision
from foldline.catalog.selectors import live_model, live_models
from foldline.catalog.services import retire
from foldline.errors import ModelNotFound, ModelRetired

MakeLive = Callable[..., Revision]


@pytest.mark.django_db
@pytest.mark.usefixtures("clock_stands_still")
def test_a_known_model_costs_no_query(
    live_revision: MakeLive, django_assert_num_queries: Callable[..., object]
) -> None:
    live_revision()
    live_model("toy")
    with django_assert_num_queries(0):  # type: ignore[attr-defined]  # a context manager
        live_model("toy")


@pytest.mark.django_db
def test_a_change_elsewhere_is_seen_within_two_seconds(
    live_revision: MakeLive, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    revision = live_revision()
    live_model("toy")
    Revision.objects.filter(pk=revision.pk).update(state="retired")
    assert live_model("toy").number == 1
    now += fresh.KEEP_S
    with pytest.raises(ModelRetired):
        live_model("toy")


@pytest.mark.django_db
def test_a_schema_is_compiled_once_per_revision(live_revision: MakeLive) -> None:
    live_revision()
    assert live_model("toy").compiled is live_models()[0].compiled


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["nothing", "", "TOY", "to\x00y", "../toy", "x" * 1000])
def test_a_name_nobody_has_is_not_found(live_revision: MakeLive, name: str) -> None:
    live_revision()
    with pytest.raises(ModelNotFound):
        live_model(name)


@pytest.mark.django_db
def test_only_live_models_are_listed(live_revision: MakeLive) -> None:
    live_revision(name="b")
    live_revision(name="a")
    retire(live_revision(name="c"))
    assert [model.name for model in live_models()] == ["a", "b"]


def test_the_gateway_holds_no_plugin_and_no_torch() -> None:
    program = (
        "import django; django.setup()\n"
        "import foldline.urls, foldline.api.urls, sys\n"
        "print(*sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={"DJANGO_SETTINGS_MODULE": "foldline.settings", **_environment()},
    )
    loaded = run.stdout.split()
    assert "foldline.api.views.submit" in loaded
    assert not {"torch", "numpy", "plugin"} & set(loaded)
    ours = {name for name in loaded if name.startswith("model_plugins.")}
    assert not {name for name in ours if "." in name.removeprefix("model_plugins.")}


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("FOLDLINE_HOME", "PATH")}
    return {**kept, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

"""`platform/` is an import root. As a package it would hide Python's own module `platform`,
and Celery, pytest and gunicorn would not start."""

from __future__ import annotations

import platform
import sysconfig
from pathlib import Path

from foldline.environment import ROOT


def test_the_folder_is_no_package() -> None:
    assert not (ROOT / "platform" / "__init__.py").exists()


def test_tests_do_not_mirror_it_by_that_name() -> None:
    assert not (ROOT / "tests" / "platform").exists()


def test_pythons_own_module_is_found() -> None:
    assert Path(platform.__file__).parent == Path(sysconfig.get_path("stdlib"))

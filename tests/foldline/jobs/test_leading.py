from __future__ import annotations

from datetime import timedelta

import pytest

from foldline.clock import database_now
from foldline.jobs.leading import lead

pytestmark = pytest.mark.django_db


def test_a_silent_leader_is_replaced() -> None:
    now = database_now()
    assert lead("sweep", name="first", now=now, keep_s=15)
    assert not lead("sweep", name="second", now=now + timedelta(seconds=14), keep_s=15)
    assert lead("sweep", name="second", now=now + timedelta(seconds=16), keep_s=15)
    assert not lead("sweep", name="first", now=now + timedelta(seconds=16), keep_s=15)


def test_each_duty_has_a_leader_of_its_own() -> None:
    now = database_now()
    assert lead("sweep", name="first", now=now, keep_s=15)
    assert lead("forecast", name="second", now=now, keep_s=15)

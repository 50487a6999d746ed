"""Keys made at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection

from foldline.errors import KeyRotation
from foldline.tenants.models import Tenant
from foldline.tenants.services import active_keys, issue_key, rotate_key

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(*calls: Callable[[], object]) -> list[str]:
    """Run each in a session of its own; what each came to."""
    ready = threading.Barrier(len(calls))
    ends: list[str] = []

    def run(call: Callable[[], object]) -> None:
        connection.ensure_connection()
        ready.wait(60)
        try:
            call()
            ends.append("made")
        except KeyRotation:
            ends.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(ends)


@pytest.mark.parametrize("turn", range(3))
def test_keys_issued_at_once_are_never_more_than_two_of_a_name(tenant: Tenant, turn: int) -> None:
    ends = at_once(*[lambda: issue_key(tenant, name="agent")] * 6)
    assert ends == ["made"] * 2 + ["refused"] * 4
    assert active_keys().count() == 2


@pytest.mark.parametrize("turn", range(3))
def test_a_key_rotated_twice_at_once_has_one_successor(tenant: Tenant, turn: int) -> None:
    key, _ = issue_key(tenant, name="agent")
    assert at_once(*[lambda: rotate_key(key)] * 4) == ["made"] + ["refused"] * 3
    assert active_keys().count() == 2


@pytest.mark.parametrize("turn", range(3))
def test_a_rotation_and_a_new_key_at_once_leave_two(tenant: Tenant, turn: int) -> None:
    key, _ = issue_key(tenant, name="agent")
    at_once(lambda: rotate_key(key), lambda: issue_key(tenant, name="agent"))
    assert active_keys().count() == 2

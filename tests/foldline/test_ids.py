from __future__ import annotations

import threading

from foldline.ids import uuid7


def test_ids_are_version_7_of_the_rfc_variant() -> None:
    made = uuid7()
    assert made.version == 7
    assert made.variant == "specified in RFC 4122"


def test_ids_of_one_process_are_in_the_order_they_were_made() -> None:
    made = [uuid7() for _ in range(10_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_threads_never_make_the_same_id() -> None:
    made: list[object] = []

    def make() -> None:
        made.extend([uuid7() for _ in range(2_000)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8_000

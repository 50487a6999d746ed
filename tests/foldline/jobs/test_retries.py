from __future__ import annotations

import pytest

from foldline.jobs.retries import BACK_OFF_ATTEMPTS, CRASHES, LONGEST_DELAY_S, like, verdict


@pytest.mark.parametrize("code", ["invalid_input", "deadline_exceeded", "expired"])
def test_what_would_fail_again_is_never_retried(code: str) -> None:
    assert verdict(code, attempt=1, max_attempts=3).retry_after_s is None
    assert not verdict(code, attempt=1, max_attempts=3).dead_letter


@pytest.mark.parametrize("code", ["model_error", "model_output_invalid", "never_heard_of"])
def test_the_models_own_failure_goes_to_the_dead_letter_at_once(code: str) -> None:
    assert verdict(code, attempt=1, max_attempts=3).retry_after_s is None
    assert verdict(code, attempt=1, max_attempts=3).dead_letter


@pytest.mark.parametrize("code", ["gpu_oom", "host_oom"])
def test_out_of_memory_is_tried_once_more(code: str) -> None:
    assert verdict(code, attempt=1, max_attempts=3).retry_after_s == 0
    assert verdict(code, attempt=2, max_attempts=3).dead_letter


@pytest.mark.parametrize("code", ["worker_lost", "plugin_crashed", "plugin_exited"])
def test_a_lost_attempt_is_repeated_until_the_job_is_poison(code: str) -> None:
    delays = [verdict(code, attempt=n, max_attempts=3).retry_after_s for n in (1, 2, 3)]
    assert delays == [0, 0, None]
    assert verdict(code, attempt=3, max_attempts=3).poison


@pytest.mark.parametrize("code", ["dependency_unavailable", "broker", "storage"])
def test_back_off_doubles_and_is_bounded(code: str) -> None:
    delays = [
        verdict(code, attempt=n, max_attempts=3).retry_after_s for n in range(1, BACK_OFF_ATTEMPTS)
    ]
    assert delays[:3] == [10, 20, 40]
    assert max(delay or 0 for delay in delays) <= LONGEST_DELAY_S
    assert verdict(code, attempt=BACK_OFF_ATTEMPTS, max_attempts=3).dead_letter


@pytest.mark.parametrize(
    ("code", "others"),
    [
        ("gpu_oom", {"gpu_oom", "host_oom"}),
        ("broker", {"broker", "storage", "dependency_unavailable"}),
        ("worker_lost", {"worker_lost", *CRASHES}),
    ],
)
def test_codes_under_one_rule_are_counted_together(code: str, others: set[str]) -> None:
    assert like(code) == others

"""Which failures are tried again, when, and which end in the dead letter. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto


class Rule(Enum):
    """What follows a failure of one kind."""

    NEVER = auto()  # the answer would be the same
    DEAD_LETTER = auto()  # not tried again; kept for an admin to look at and redrive
    ONCE_MORE = auto()  # one more try, then the dead letter
    BACK_OFF = auto()  # something around us is away: later, and later still
    ATTEMPTS = auto()  # the worker or plugin was lost: until the attempts are used up


OUT_OF_MEMORY = frozenset({"gpu_oom", "host_oom"})
"""What is tried once more in a smaller way, if the model has one."""
CRASHES = frozenset({"plugin_crashed", "plugin_exited", "plugin_no_answer", "protocol_broken"})
"""Deaths that are the model's own doing; a lost worker may be the machine's."""
ANSWERS = OUT_OF_MEMORY | {
    "invalid_input",
    "model_error",
    "model_output_invalid",
    "output_too_large",
    "dependency_unavailable",
}
"""Failures that a plugin tells of itself: it is loaded and works."""

RULES: Mapping[str, Rule] = {
    "invalid_input": Rule.NEVER,
    "deadline_exceeded": Rule.NEVER,
    "expired": Rule.NEVER,
    "output_too_large": Rule.DEAD_LETTER,
    "model_error": Rule.DEAD_LETTER,
    "model_output_invalid": Rule.DEAD_LETTER,
    **dict.fromkeys(OUT_OF_MEMORY, Rule.ONCE_MORE),
    "dependency_unavailable": Rule.BACK_OFF,
    "broker": Rule.BACK_OFF,
    "storage": Rule.BACK_OFF,
    "worker_lost": Rule.ATTEMPTS,
    **dict.fromkeys(CRASHES, Rule.ATTEMPTS),
}

FIRST_DELAY_S = 10.0
LONGEST_DELAY_S = 300.0
BACK_OFF_ATTEMPTS = 6


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """`retry_after_s` is None when the job ends here."""

    retry_after_s: float | None
    dead_letter: bool = False
    poison: bool = False


def like(code: str) -> frozenset[str]:
    """The codes under the same rule as `code`. Attempts are counted by rule: a full disk in
    the morning takes nothing from what a lost worker is allowed at noon."""
    rule = _rule(code)
    return frozenset(other for other in (*RULES, code) if _rule(other) is rule)


def _rule(code: str) -> Rule:
    return RULES.get(code, Rule.DEAD_LETTER)


def verdict(code: str, *, attempt: int, max_attempts: int) -> Verdict:
    """What becomes of a job of which an attempt ended with `code`.

    It is the `attempt`-th one (from 1) that ended with a code `like` this one. An unknown
    code is treated as the model's own failure: kept, not repeated.
    """
    rule = _rule(code)
    if rule is Rule.NEVER:
        return Verdict(retry_after_s=None)
    if rule is Rule.ATTEMPTS:
        if attempt < max_attempts:
            return Verdict(retry_after_s=0.0)
        return Verdict(retry_after_s=None, dead_letter=True, poison=True)
    if rule is Rule.ONCE_MORE and attempt < 2:
        return Verdict(retry_after_s=0.0)
    if rule is Rule.BACK_OFF and attempt < BACK_OFF_ATTEMPTS:
        return Verdict(retry_after_s=min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** (attempt - 1)))
    return Verdict(retry_after_s=None, dead_letter=True)

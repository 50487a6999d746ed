from __future__ import annotations

import os
import time

import pytest

from tasks.plugin_log import BURST_LINES, LINES_PER_S, MAX_LINE_CHARS, TAIL_LINES, PluginLog


def logged(data: bytes, caplog: pytest.LogCaptureFixture) -> tuple[list[str], tuple[str, ...]]:
    """The lines that reach the log, and the tail, when a plugin prints this."""
    reads, writes = os.pipe()
    with caplog.at_level("INFO", logger="foldline.plugin"):
        log = PluginLog(reads, name="mine")
        with os.fdopen(writes, "wb") as pipe:
            pipe.write(data)
        tail = log.tail(patience_s=120)
    return [record.getMessage() for record in caplog.records], tail


def test_each_line_is_logged_with_the_name_of_its_plugin(caplog: pytest.LogCaptureFixture) -> None:
    lines, tail = logged(b"one\n\n  \ntwo\nthe last without an end", caplog)

    assert lines == ["mine: one", "mine: two", "mine: the last without an end"]
    assert tail == ("one", "two", "the last without an end")


def test_control_characters_and_bad_bytes_cannot_reach_a_terminal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, tail = logged(b"\x1b[31m\0red\xff\tx\r\n", caplog)

    assert tail == ("\ufffd[31m\ufffdred\ufffd\tx\ufffd",)


def test_a_long_line_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    _, tail = logged(b"x" * 300_000 + b"\nnext\n", caplog)

    assert max(len(line) for line in tail) == MAX_LINE_CHARS
    assert tail[-1] == "next"


def test_lines_printed_too_fast_are_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    began = time.monotonic()
    lines, tail = logged(b"x\n" * 50_000, caplog)
    seconds = time.monotonic() - began

    # Each line that comes through later may follow a word about those that did not.
    assert BURST_LINES <= len(lines) < BURST_LINES + 2 * LINES_PER_S * (seconds + 1)
    assert any("lines dropped" in line for line in lines)
    assert len(tail) == TAIL_LINES

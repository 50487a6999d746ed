from __future__ import annotations

import os
from pathlib import Path

import pytest

from tasks import autopsy
from tasks.autopsy import OomKills, name_death


@pytest.mark.parametrize(
    ("returncode", "ordered", "out_of_memory", "code", "words"),
    [
        (0, False, False, "plugin_no_answer", "exit code 0"),
        (3, False, True, "plugin_exited", "exit code 3"),
        (137, False, True, "plugin_exited", "exit code 137"),
        (-11, False, True, "plugin_crashed", "signal 11 (SIGSEGV)"),
        (-9, False, False, "plugin_crashed", "signal 9 (SIGKILL)"),
        (-9, True, True, "plugin_crashed", "signal 9 (SIGKILL)"),
        (-9, False, True, "host_oom", "memory ran out"),
        (-40, False, False, "plugin_crashed", "real-time"),
    ],
)
def test_each_end_has_its_name(
    *, returncode: int, ordered: bool, out_of_memory: bool, code: str, words: str
) -> None:
    death = name_death(returncode, ordered=ordered, out_of_memory=out_of_memory)

    assert death.code == code
    assert words in death.message
    assert death.ordered == ordered


def test_the_count_of_this_machine_does_not_rise_by_itself() -> None:
    assert not OomKills(os.getpid()).rose()


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("0::/work/a", "work/a/memory.events"),
        ("0::/of/the/host", "memory.events"),
        ("4:memory:/work/a", "memory/work/a/memory.oom_control"),
        ("4:cpu,memory:/of/the/host", "memory/memory.oom_control"),
    ],
)
def test_the_count_of_the_cgroup_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, file: str
) -> None:
    counter = tmp_path / file
    counter.parent.mkdir(parents=True, exist_ok=True)
    counter.write_text("oom 9\noom_kill 2\n")
    monkeypatch.setattr(autopsy, "CGROUPS", tmp_path)
    monkeypatch.setattr(autopsy, "_groups", lambda pid: [line])

    kills = OomKills(os.getpid())
    assert not kills.rose()
    counter.write_text("oom 9\noom_kill 3\n")
    assert kills.rose()
    kills.mark()
    assert not kills.rose()


def test_without_a_cgroup_the_machine_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("nr_free_pages 7\noom_kill 1\n")
    monkeypatch.setattr(autopsy, "CGROUPS", tmp_path / "none")
    monkeypatch.setattr(autopsy, "VMSTAT", vmstat)

    kills = OomKills(os.getpid())
    vmstat.write_text("nr_free_pages 7\noom_kill 2\n")
    assert kills.rose()

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scaler.simulate import density
from scaler.simulate.__main__ import main
from scaler.simulate.report import quantile
from scaler.simulate.trace import recorded
from scaler.simulate.workload import agents


def test_the_table_of_densities_is_the_known_one() -> None:
    rows = density.table()
    assert [(row.calls, row.resident) for row in rows] == [(20, 1), (100, 2), (200, 3)]
    assert [row.on_demand_h for row in rows] == pytest.approx([5.6, 28.0, 56.0])
    assert density.RESIDENT_H == 24
    assert density.crossing() == 86


def test_the_brain_holds_no_card_all_day_for_twenty_calls() -> None:
    (row,) = density.table([20])
    assert row.spread_h < 24 * 0.3
    assert row.one_hour_h < row.on_demand_h


def test_without_arguments_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    for calls, hours in ((20, 5.6), (100, 28.0), (200, 56.0)):
        row = next(line for line in shown.splitlines() if line.split()[:1] == [str(calls)])
        assert row.split()[1:3] == [f"{hours:.1f}", "24.0"]


def test_a_made_up_day_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sessions", "3", "--cards", "4", "--seed", "2"]) == 0
    shown = capsys.readouterr().out
    assert "0 killed jobs, 0 sessions not ended" in shown
    assert "12h " in shown


def test_a_recorded_day_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = tmp_path / "calls.jsonl"
    calls.write_text(
        "\n".join(json.dumps({"at_s": at_s, "model": "mine", "service_s": 50}) for at_s in (500, 3))
    )
    models = tmp_path / "models.json"
    models.write_text(json.dumps({"mine": {"share": 0.5, "cold_s": 40}}))
    asked = ["--trace", str(calls), "--cards", "1"]
    assert main(asked) == 2
    assert "nothing is known of mine" in capsys.readouterr().err
    assert main([*asked, "--models", str(models)]) == 0
    assert "mine                 2" in capsys.readouterr().out


def test_calls_come_in_the_order_of_their_time(tmp_path: Path) -> None:
    calls = tmp_path / "calls.jsonl"
    calls.write_text(
        '{"at_s": 9, "model": "m", "service_s": 1}\n\n{"at_s": 2, "model": "m", "service_s": 1}'
    )
    assert [session.at_s for session in recorded(calls)] == [2, 9]


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"at_s": 1}', '{"at_s": "x", "model": "m", "service_s": 1}']
)
def test_a_line_that_cannot_be_read_is_named(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = tmp_path / "calls.jsonl"
    calls.write_text(f'{{"at_s": 1, "model": "m", "service_s": 1}}\n{line}\n')
    assert main(["--trace", str(calls)]) == 2
    assert f"{calls}, line 2" in capsys.readouterr().err


def test_models_that_cannot_be_read_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = tmp_path / "calls.jsonl"
    calls.write_text('{"at_s": 1, "model": "m", "service_s": 1}\n')
    models = tmp_path / "models.json"
    models.write_text('{"m": {"share": 1}}')
    assert main(["--trace", str(calls), "--models", str(models)]) == 2
    assert "cold_s" in capsys.readouterr().err


def test_a_seed_is_a_day() -> None:
    assert agents(5, sessions_a_day=40) == agents(5, sessions_a_day=40)
    assert agents(5, sessions_a_day=40) != agents(6, sessions_a_day=40)


def test_a_quantile_lies_between_the_two_nearest_values() -> None:
    assert quantile([1, 2, 3, 4], 0.5) == 2.5
    assert quantile([7], 0.95) == 7
    assert quantile([], 0.95) == 0

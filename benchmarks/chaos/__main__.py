"""`python -m benchmarks.chaos --effective N`: break things, check, tell the figures."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from typing import Any

from benchmarks.chaos.checker import Violation, doubled, lost, violations
from benchmarks.chaos.evidence import keep
from benchmarks.chaos.recovery import cancels, recoveries, spread
from benchmarks.chaos.run import Plan, Run, run
from benchmarks.figures import SEED, figure, publish

WORKER_TARGET_S, PLUGIN_TARGET_S, CANCEL_TARGET_S = 30.0, 5.0, 10.0
SHOWN = 20


def main() -> int:
    """1 when a promise was broken."""
    told = _arguments()
    plan = Plan(
        effective=told.effective,
        seed=told.seed,
        limit_s=told.limit_s or max(120.0, 6.0 * told.effective),
        fence=told.without != "fence",
        sweeper=told.without != "sweeper",
        kinds=tuple(told.only or ()),
        drain_s=told.drain_s,
    )
    ended = run(plan)
    found = violations(ended.evidence)
    for each in found[:SHOWN]:
        print(f"{each.promise}: {each.what}: {each.about}", file=sys.stderr)
    if found or told.keep:
        print(f"histories and tables: {keep(ended.evidence)}", file=sys.stderr)
    figures = _figures(ended, found)
    if told.print_only:
        for each_figure in figures:
            print(json.dumps(each_figure))
    else:
        publish("chaos", figures)
    return 1 if found else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--effective", type=int, default=30, help="faults that must hit")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--limit-s", type=float, help="stop breaking things after so long")
    parser.add_argument("--drain-s", type=float, default=180.0)
    parser.add_argument("--without", choices=["fence", "sweeper"], help="the controls")
    parser.add_argument("--only", nargs="+", help="these faults and no others")
    parser.add_argument("--keep", action="store_true", help="keep the histories, too")
    parser.add_argument("--print-only", action="store_true", help="keep docs/figures as it is")
    return parser.parse_args()


def _figures(ended: Run, found: list[Violation]) -> list[dict[str, Any]]:
    evidence, times = ended.evidence, ended.times
    how: dict[str, Any] = {"jobs": len(evidence.jobs), "seconds": round(ended.seconds), **times}
    by_promise = dict(Counter(each.promise for each in found))
    figures = [
        figure(
            "chaos_effective_faults", ended.effective, unit="faults", kinds=_kinds(ended), **how
        ),
        figure("chaos_lost", lost(evidence), unit="jobs", at_most=0),
        figure("chaos_double", doubled(found), unit="jobs", at_most=0),
        figure("chaos_violations", len(found), unit="violations", at_most=0, of=by_promise),
        figure("chaos_answers_500", _answers_500(ended), unit="answers"),
    ]
    # Until a new sweeper leads and may judge leases, counted back from a lease's end.
    settle = 2 * times["heartbeat_s"] + 5 * times["sweep_s"]
    for kind, name, target, settle_s in (
        ("kill_worker", "recovery_worker", WORKER_TARGET_S, settle),
        ("kill_plugin", "recovery_plugin", PLUGIN_TARGET_S, 15.0),
    ):
        all_of_them = recoveries(evidence, kind, settle_s=settle_s)
        measured = [each.claimed_s for each in all_of_them if each.measured]
        calm = [each.claimed_s for each in all_of_them if each.calm]
        longest = max((each.claimed_s for each in all_of_them), default=0.0)
        if measured:
            told = spread(measured)
            more = {key: round(told[key], 2) for key in ("p50", "max")}
            figures.append(
                figure(
                    f"{name}_p99_s",
                    told["p99"],
                    unit="s",
                    at_most=target,
                    **more,
                    measured=len(measured),
                    calm=len(calm),
                    calm_p99=round(spread(calm)["p99"], 2),
                    of=len(all_of_them),
                    max_of_all=round(longest, 2),
                )
            )
    return figures + _cancels(ended)


def _cancels(ended: Run) -> list[dict[str, Any]]:
    took = cancels(ended.evidence)
    if not took:
        return []
    told = spread(took)
    more = {"p50": round(told["p50"], 2), "measured": told["n"]}
    return [figure("cancel_running_max_s", told["max"], unit="s", at_most=CANCEL_TARGET_S, **more)]


def _kinds(ended: Run) -> dict[str, str]:
    """Kind of fault → how many of how many hit something."""
    faults = [event for event in ended.evidence.history if event["event"] == "fault"]
    done = Counter(event["kind"] for event in faults)
    hit = Counter(event["kind"] for event in faults if event["effective"])
    return {kind: f"{hit[kind]} of {times}" for kind, times in done.items()}


def _answers_500(ended: Run) -> int:
    """Submits that were answered with 500: allowed by P1 to P10, and still not nice."""
    return sum(event.get("status") == 500 for event in ended.evidence.history)


if __name__ == "__main__":
    sys.exit(main())

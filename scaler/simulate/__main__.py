"""`python -m scaler.simulate`: the table of densities; with a trace or a made-up day, a what-if."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from scaler.brain.policy import Policy
from scaler.simulate import baselines, density, picture, workload
from scaler.simulate.brain_actor import BrainActor
from scaler.simulate.trace import Session, models_of, recorded
from scaler.simulate.workload import KINDS, Kind
from scaler.simulate.world import Actor, World


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was asked for; 2 when the input cannot be read."""
    asked = _parser().parse_args(arguments)
    if asked.trace is None and asked.sessions is None:
        print(density.told(density.table()))  # noqa: T201 - the program's answer
        return 0
    try:
        sessions, kinds, policies = _input(asked)
    except (OSError, ValueError) as wrong:
        print(f"cannot simulate: {wrong}", file=sys.stderr)  # noqa: T201 - the program's answer
        return 2
    world = World(
        sessions, kinds=kinds, cards=asked.cards, actor=_actor(asked.by, policies), seed=asked.seed
    )
    world.run(max(workload.DAY_S, *(session.at_s for session in sessions)))
    print(picture.told(world))  # noqa: T201 - the program's answer
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scaler.simulate", description=__doc__)
    parser.add_argument("--sessions", type=float, help="agent sessions of a made-up day")
    parser.add_argument("--trace", type=Path, help="recorded calls, JSON lines")
    parser.add_argument("--models", type=Path, help="the models of the trace, JSON by name")
    parser.add_argument("--cards", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--by", choices=("brain", "keda", "keda-tuned", "static"), default="brain")
    return parser


def _input(asked: argparse.Namespace) -> tuple[list[Session], dict[str, Kind], list[Policy]]:
    if asked.trace is None:
        sessions = workload.agents(asked.seed, sessions_a_day=asked.sessions)
        return sessions, KINDS, workload.policies()
    sessions = recorded(asked.trace)
    if not sessions:
        raise ValueError(f"{asked.trace} has no calls")
    if asked.models is None:
        kinds, policies = KINDS, workload.policies()
    else:
        kinds = _kinds(asked.models)
        policies = [kind.policy(name) for name, kind in kinds.items()]
    unknown = models_of(sessions) - set(kinds)
    if unknown:
        raise ValueError(f"nothing is known of {', '.join(sorted(unknown))}; name it in --models")
    return sessions, kinds, policies


def _kinds(path: Path) -> dict[str, Kind]:
    """`{"name": {"share": 0.5, "cold_s": 60, "lane": "online"}}`: what a what-if needs."""
    try:
        rows = json.loads(path.read_text())
        return {
            name: Kind(
                share=float(row["share"]),
                cold_s=(float(row["cold_s"]), float(row["cold_s"])),
                median_s=float(row.get("service_s", 60.0)),
                sigma=0.0,
                least_s=0.0,
                most_s=float("inf"),
                lane=row.get("lane", "online"),
            )
            for name, row in rows.items()
        }
    except (KeyError, TypeError, AttributeError, ValueError) as wrong:
        raise ValueError(f"{path}: {wrong!r}") from wrong


def _actor(by: str, policies: Sequence[Policy]) -> Actor:
    if by == "brain":
        return BrainActor(policies)
    if by == "static":
        return baselines.static()
    return baselines.keda_tuned() if by == "keda-tuned" else baselines.keda_defaults()


if __name__ == "__main__":
    sys.exit(main())

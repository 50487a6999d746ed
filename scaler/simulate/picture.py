"""A simulated run as text: its figures, and the cards in use hour by hour."""

from __future__ import annotations

import math

from scaler.simulate.report import report
from scaler.simulate.world import World

WIDTH = 60


def told(world: World) -> str:
    """The whole run, a screen long for each day or two."""
    return "\n".join([*_figures(world), "", *_hours(world)])


def _figures(world: World) -> list[str]:
    run = report(world)
    lines = [
        f"{run.card_hours:.1f} card-hours, of them {run.busy_hours:.1f} at work; "
        f"{run.clairvoyant_ratio:.2f} times the least possible cost",
        f"waits: mean {run.mean_wait_s:.0f} s, p95 {run.p95_wait_s:.0f} s; "
        f"{run.cold_starts} cold starts, {run.killed} killed jobs, "
        f"{run.unfinished} sessions not ended",
        "",
        "model             jobs   p95 wait s   cold starts   card-hours",
    ]
    for model, tally in world.tallies.items():
        hours = tally.alive_s * world.kinds[model].share / 3600
        lines.append(
            f"{model:16}{len(tally.jobs):6}   {run.p95_by_model_s[model]:10.0f}"
            f"   {tally.starts:11}   {hours:10.1f}"
        )
    return lines


def _hours(world: World) -> list[str]:
    """A line an hour: a bar of the cards that workers held, on average."""
    cards = len(world.free)
    held = [0.0] * max(1, math.ceil(world.now / 3600))
    for model, tally in world.tallies.items():
        for born_s, end_s in tally.lives:
            for hour in range(int(born_s // 3600), min(len(held), int(end_s // 3600) + 1)):
                within = min(end_s, (hour + 1) * 3600) - max(born_s, hour * 3600)
                held[hour] += within / 3600 * world.kinds[model].share
    return [
        f"{hour % 24:02}h {'█' * round(each / cards * WIDTH):{WIDTH}} {each:4.1f} of {cards} cards"
        for hour, each in enumerate(held)
    ]

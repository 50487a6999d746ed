"""`python -m benchmarks`: every measurement, one after the other."""

from __future__ import annotations

import subprocess
import sys

MEASUREMENTS = (
    *("accept", "roundtrip", "footprint", "broker_down", "storm", "recovery"),
    *("fairness", "eta", "eta_live", "depth", "policy", "cold"),
    *("waiters", "accept --batch", "burst", "agent_loop"),
)


def main() -> int:
    """Run each in a process of its own; the number of those that could not be measured."""
    failed = 0
    for name in MEASUREMENTS:
        command = [sys.executable, "-m", *f"benchmarks.{name}".split()]
        failed += subprocess.run(command).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""Measurements. Each prints one JSON line a figure; `python -m benchmarks` runs them all."""

from __future__ import annotations

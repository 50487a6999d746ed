"""Foldline as real processes, faults aimed at what is at work, and a checker of the promises.

`make -s chaos EFFECTIVE=N` runs it; docs/chaos.md says how to read it.
"""

from __future__ import annotations

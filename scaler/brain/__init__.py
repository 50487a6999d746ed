"""Deciding: how many workers each model gets, and on which card.

Standard library only, no clock and no I/O: one look at the pool and `now` go in, a plan goes
out. `decision.decide` is the door; `simulate` asks the same one.
"""

from __future__ import annotations

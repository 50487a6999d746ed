"""What if: the brain that runs the cards, on a day that was recorded or made up."""

from __future__ import annotations

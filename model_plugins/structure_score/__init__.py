"""How alike two structures are."""

from __future__ import annotations

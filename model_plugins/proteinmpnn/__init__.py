"""ProteinMPNN: sequences for a given backbone."""

from __future__ import annotations

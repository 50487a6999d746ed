"""Weight files inside a runtime's packages, and whether they are the reviewed ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from foldline.fleet.packages import RuntimeTrouble
from model_plugins.manifest import Manifest, Weight


def check_weights(plugins: Iterable[Manifest], *, site_packages: Path) -> int:
    """The bytes of all weight files, read to their ends. Raises RuntimeTrouble unless each is
    there and has its manifest's hash."""
    return sum(
        _check(plugin, weight, file=site_packages / weight.package / weight.path)
        for plugin in plugins
        for weight in plugin.weights
    )


def _check(plugin: Manifest, weight: Weight, *, file: Path) -> int:
    if not file.is_file():
        raise RuntimeTrouble(
            f"The weights {weight.name!r} of {plugin.name} are missing: the package "
            f"{weight.package} has no file {weight.path}."
        )
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
        size = opened.tell()
    if found != weight.sha256:
        raise RuntimeTrouble(
            f"The weights {weight.name!r} of {plugin.name} are not the reviewed ones: {file} has "
            f"SHA-256 {found}, and its manifest says {weight.sha256}."
        )
    return size

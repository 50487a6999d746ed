"""Finds plugins: folders with a manifest, and installed packages that announce one.

Nothing is imported. A plugin that cannot be used is refused with its reason and never
stands in the way of the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from model_plugins.manifest import Manifest, ManifestError, read_manifest

BUILTIN_ROOT = Path(__file__).resolve().parent
ENTRY_POINT_GROUP = "foldline.plugins"
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A folder that could not become a model, and why in one sentence."""

    folder: Path
    reason: str


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """What was found, by name, and what was refused."""

    found: tuple[Manifest, ...]
    refused: tuple[Refusal, ...]


def discover(roots: Sequence[Path], *, site_packages: Sequence[Path] = ()) -> Discovery:
    """Every plugin below the roots, and every package in `site_packages` with an entry point
    of the group `foldline.plugins` whose value is a package that holds a manifest.toml."""
    found: list[Manifest] = []
    refused: list[Refusal] = []
    for folder in _folders(roots, site_packages, refused):
        try:
            found.append(_read(folder))
        except ManifestError as error:
            refused.append(Refusal(folder=folder, reason=str(error)))
    unique = [manifest for manifest in found if not _twins(manifest, found)]
    refused += [
        Refusal(folder=manifest.folder, reason=_twin_sentence(manifest, twins))
        for manifest in found
        if (twins := _twins(manifest, found))
    ]
    return Discovery(
        found=tuple(sorted(unique, key=lambda manifest: manifest.name)), refused=tuple(refused)
    )


def _folders(
    roots: Iterable[Path], site_packages: Sequence[Path], refused: list[Refusal]
) -> list[Path]:
    folders: dict[Path, None] = {}
    for root in roots:
        if not root.is_dir():
            refused.append(Refusal(folder=root, reason=f"The plugin folder {root} is missing."))
            continue
        for file in sorted(root.glob("*/manifest.toml")):
            folders[file.parent.resolve()] = None
    for value, folder in _announced(site_packages):
        if folder is None:
            reason = f"The entry point {value!r} does not name a package with a manifest.toml."
            refused.append(Refusal(folder=Path(value), reason=reason))
        else:
            folders[folder.resolve()] = None
    return list(folders)


def _announced(site_packages: Sequence[Path]) -> Iterator[tuple[str, Path | None]]:
    """Each announced package with its folder, or None where there is no manifest."""
    for site in site_packages:
        for distribution in distributions(path=[str(site)]):
            for point in distribution.entry_points.select(group=ENTRY_POINT_GROUP):
                folder = site.joinpath(*point.value.split("."))
                fine = _DOTTED.fullmatch(point.value) and (folder / "manifest.toml").is_file()
                yield point.value, folder if fine else None


def _read(folder: Path) -> Manifest:
    manifest = read_manifest(folder)
    if folder.parent == BUILTIN_ROOT and manifest.name != folder.name:
        raise ManifestError(
            f"{folder / 'manifest.toml'}: `model.name` is {manifest.name!r} but a built-in model "
            f"has its folder's name, {folder.name!r}.",
            file=folder / "manifest.toml",
            key="model.name",
        )
    return manifest


def _twins(manifest: Manifest, found: Sequence[Manifest]) -> list[Manifest]:
    return [
        other for other in found if other.name == manifest.name and other.folder != manifest.folder
    ]


def _twin_sentence(manifest: Manifest, twins: Sequence[Manifest]) -> str:
    others = " and ".join(str(twin.folder) for twin in twins)
    return (
        f"The name {manifest.name!r} is used by {manifest.folder} and by {others}; "
        "rename one of them."
    )

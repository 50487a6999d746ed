"""How a plugin process finds its weights and its plugin class. Standard library only."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path

from model_plugins.base import Plugin, PluginError

BUILTIN_ROOT = Path(__file__).resolve().parent


class WeightsMismatch(PluginError):
    """A weight file is missing or is not the one the manifest names."""

    code = "weights_mismatch"


class LoadFailed(PluginError):
    """The plugin could not be loaded."""

    code = "load_failed"


def verified_weights(weights: Iterable[Mapping[str, str]]) -> dict[str, Path]:
    """Weight files by name, found without importing their package, their hashes checked.

    Raises WeightsMismatch naming the file and both hashes.
    """
    return {weight["name"]: _verified(weight) for weight in weights}


def _verified(weight: Mapping[str, str]) -> Path:
    name, package = weight["name"], weight["package"]
    path = _package_folder(package, weights=name) / weight["path"]
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise WeightsMismatch(
            f"the weights {name} cannot be read: {weight['path']} in the package {package} "
            f"({error.strerror})"
        ) from error
    if found != weight["sha256"]:
        raise WeightsMismatch(
            f"the weights {name} are not the ones the manifest names: {weight['path']} in the "
            f"package {package} has SHA-256 {found}, expected {weight['sha256']}"
        )
    return path


def _package_folder(package: str, *, weights: str) -> Path:
    # A top-level name: looking for it runs none of its code.
    spec = importlib.util.find_spec(package.partition(".")[0])
    locations = list(spec.submodule_search_locations or ()) if spec else []
    if not locations:
        raise WeightsMismatch(
            f"the weights {weights} are in the package {package}, "
            f"which is not installed for {sys.executable}"
        )
    return Path(locations[0], *package.split(".")[1:])


def import_plugin(*, name: str, folder: Path, entry: str) -> Plugin:
    """An instance of the class `module:Class` inside a plugin's folder.

    A folder beside this file is imported under its ordinary name; any other is loaded by its
    path as a package of its own, so that its modules may import each other relatively.
    """
    module_name, _, class_name = entry.partition(":")
    package = _package_name(name, folder.resolve())
    module = importlib.import_module(f"{package}.{module_name}")
    kind = getattr(module, class_name, None)
    if not isinstance(kind, type):
        raise LoadFailed(f"{module_name} in {folder} has no class {class_name}")
    plugin: Plugin = kind()
    for method in ("load", "infer"):
        if not callable(getattr(plugin, method, None)):
            raise LoadFailed(f"{class_name} in {folder} has no method {method}")
    return plugin


def _package_name(name: str, folder: Path) -> str:
    if folder.parent == BUILTIN_ROOT:
        return f"model_plugins.{folder.name}"
    package = f"foldline_plugin_{name}"
    if not folder.is_dir():
        raise LoadFailed(f"the plugin's folder {folder} does not exist")
    if package not in sys.modules:
        init = folder / "__init__.py"
        spec = (
            importlib.util.spec_from_file_location(
                package, init, submodule_search_locations=[str(folder)]
            )
            if init.is_file()
            else ModuleSpec(package, loader=None, is_package=True)
        )
        if spec is None:
            raise LoadFailed(f"{init} cannot be imported")
        spec.submodule_search_locations = [str(folder)]
        module = importlib.util.module_from_spec(spec)
        sys.modules[package] = module
        if spec.loader:
            spec.loader.exec_module(module)
    return package

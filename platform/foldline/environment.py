"""Where Foldline keeps its state, and the secrets it makes for itself."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def home() -> Path:
    """The state folder: `FOLDLINE_HOME`, or `var/` beside the code."""
    return Path(os.environ.get("FOLDLINE_HOME") or ROOT / "var").absolute()


def secret(name: str, *, make: bool = True) -> str:
    """A secret by its name: from `FOLDLINE_<NAME>`, else from the state folder.

    One that does not exist yet is made (384 bits) and kept with mode 0600, so that a fresh
    clone never runs with a well-known value. With `make=False` a missing one is "".
    """
    given = os.environ.get(f"FOLDLINE_{name.upper()}")
    if given:
        return given
    path = secret_path(name)
    if not path.exists() and make:
        _write_once(path, secrets.token_urlsafe(48))
    return path.read_text().strip() if path.exists() else ""


def secret_path(name: str) -> Path:
    return home() / "secrets" / name


def keep_secret(name: str, value: str) -> None:
    """Store a secret made elsewhere (an API key is made by the tenants' room)."""
    path = secret_path(name)
    path.unlink(missing_ok=True)
    _write_once(path, value)


def _write_once(path: Path, value: str) -> None:
    """Create the file whole or not at all; of two processes that race, one wins."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(value)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()

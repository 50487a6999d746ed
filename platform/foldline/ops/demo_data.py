"""The tenant, key, admin and live models that a first run needs."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from django.conf import settings

from foldline.catalog.models import Revision
from foldline.catalog.services import publish, sync
from foldline.environment import keep_secret, secret
from foldline.errors import FoldlineError
from foldline.tenants.models import User
from foldline.tenants.services import authenticate, ensure_tenant, issue_key
from model_plugins.registry import BUILTIN_ROOT, Discovery, discover

KEY_SECRET = "demo_api_key"  # noqa: S105 - the name of a secret


def seed(*, say: Callable[[str], None]) -> None:
    """Make what is missing. New passwords and keys are said once, and kept in the state folder."""
    news = [line for line in (_seed_key(), _seed_admin(), _seed_flower()) if line]
    if news:
        say(f"Made once and kept in {settings.HOME / 'secrets'}:")
        for line in news:
            say(f"  {line}")
    _set_builtins_live(discover([BUILTIN_ROOT]), say=say)


def demo_key() -> str:
    """The demo tenant's API key; "" before `seed`."""
    return secret(KEY_SECRET, make=False)


def _seed_key() -> str:
    tenant = ensure_tenant("demo", name="Demo")
    if _is_good(demo_key()):
        return ""
    _, plaintext = issue_key(tenant, name="demo")
    keep_secret(KEY_SECRET, plaintext)
    return f"API key of the tenant `demo`: {plaintext}"


def _is_good(key: str) -> bool:
    try:
        authenticate(key)
    except FoldlineError:
        return False
    return True


def _seed_admin() -> str:
    if User.objects.filter(is_superuser=True).exists():
        return ""
    password = secrets.token_urlsafe(18)
    keep_secret("admin_password", password)
    User.objects.create_superuser("admin", password=password)
    return f"Admin: user `admin`, password {password}"


def _seed_flower() -> str:
    if secret("flower_password", make=False):
        return ""
    return f"Flower: user `ops`, password {secret('flower_password')}"


def _set_builtins_live(discovery: Discovery, *, say: Callable[[str], None]) -> None:
    """A built-in model's newest revision goes live: its code is this repository's own."""
    for outcome in sync(discovery).outcomes:
        if outcome.revision is None:
            say(f"{outcome.name} is not served: {outcome.reason}")
            continue
        revision = Revision.objects.get(model__name=outcome.name, number=outcome.revision)
        if revision.state != Revision.State.LIVE:
            publish(revision, by=None)
            say(f"{revision} is live")

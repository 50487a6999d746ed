"""System checks: what is wrong with the settings, said at start and by `manage.py check`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.checks import Warning as Caution

from foldline.environment import secret_path

SCALER_TARGETS = ("local", "kubernetes", "advise")
GPU_FLAVOURS = ("whole", "hami", "mig", "time-sliced", "mps")


@register()
def folders_can_be_written(
    app_configs: Sequence[AppConfig] | None, **_kwargs: Any
) -> Iterable[CheckMessage]:
    folders = {"FOLDLINE_HOME": settings.HOME, "FOLDLINE_ARTIFACTS": settings.ARTIFACTS_DIR}
    for name, folder in folders.items():
        nearest = folder
        while not nearest.exists():
            nearest = nearest.parent
        if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
            yield Error(
                f"{folder} cannot be written.",
                hint=f"Give this user the folder {nearest}, or set {name} to another one.",
                id="foldline.E001",
            )


@register()
def a_lease_outlives_a_lost_heartbeat(
    app_configs: Sequence[AppConfig] | None, **_kwargs: Any
) -> Iterable[CheckMessage]:
    if settings.LEASE_S < 2 * settings.HEARTBEAT_S:
        yield Error(
            f"A lease of {settings.LEASE_S:g} s ends when one heartbeat "
            f"({settings.HEARTBEAT_S:g} s) is late.",
            hint="Set FOLDLINE_LEASE_S to at least twice FOLDLINE_HEARTBEAT_S.",
            id="foldline.E002",
        )


@register()
def a_public_address_is_https(
    app_configs: Sequence[AppConfig] | None, **_kwargs: Any
) -> Iterable[CheckMessage]:
    if settings.PUBLIC and not settings.BASE_URL.startswith("https://"):
        yield Error(
            f"FOLDLINE_PUBLIC is on, and FOLDLINE_BASE_URL is {settings.BASE_URL}.",
            hint="Set FOLDLINE_BASE_URL to the https address that callers use.",
            id="foldline.E003",
        )


@register()
def webhook_hosts_name_a_port(
    app_configs: Sequence[AppConfig] | None, **_kwargs: Any
) -> Iterable[CheckMessage]:
    for entry in settings.WEBHOOK_HOSTS:
        host, _, port = entry.rpartition(":")
        if not host or not port.isdigit() or entry != entry.lower():
            yield Error(
                f"FOLDLINE_WEBHOOK_HOSTS names {entry!r}, which is no host:port.",
                hint="Write each as host:port, in small letters.",
                id="foldline.E010",
            )


@register(deploy=True)
def webhooks_stay_outside(
    app_configs: Sequence[AppConfig] | None, **_kwargs: Any
) -> Iterable[CheckMessage]:
    if settings.WEBHOOK_HOSTS:
        yield Caution(
            f"Tenants may have messages sent to {', '.join(settings.WEBHOOK_HOSTS)}.",
            hint="Leave FOLDLINE_WEBHOOK_HOSTS empty, or silence foldline.W010 if that is meant.",
            id="foldline.W010",
        )


@register()
def secrets_are_private(
    app_configs: Sequence[AppConfig] | None, **_kwargs: Any
) -> Iterable[CheckMessage]:
    folder = secret_path("any").parent
    for file in sorted(folder.glob("*")) if folder.is_dir() else ():
        if file.stat().st_mode & 0o077:
            yield Error(
                f"Other users may read the secret {file}.",
                hint=f"chmod 600 {file}, and make a new one if somebody could have read it.",
                id="foldline.E004",
            )


@register()
def the_scaler_knows_where_workers_are(
    app_configs: Sequence[AppConfig] | None, **_kwargs: Any
) -> Iterable[CheckMessage]:
    if settings.SCALER_TARGET not in SCALER_TARGETS:
        yield Error(
            f"{settings.SCALER_TARGET!r} is no place for workers.",
            hint=f"Set FOLDLINE_SCALER_TARGET to {' or '.join(SCALER_TARGETS)}.",
            id="foldline.E005",
        )
    if settings.LOCAL_WORKERS < 1:
        yield Error(
            f"With {settings.LOCAL_WORKERS} workers no job ever runs.",
            hint="Set FOLDLINE_LOCAL_WORKERS to 1 or more.",
            id="foldline.E006",
        )
    if settings.GPU_FLAVOUR not in GPU_FLAVOURS:
        yield Error(
            f"{settings.GPU_FLAVOUR!r} is no way to hand out cards.",
            hint=f"Set FOLDLINE_GPU_FLAVOUR to {' or '.join(GPU_FLAVOURS)}.",
            id="foldline.E007",
        )

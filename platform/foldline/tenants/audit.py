"""Every change in the admin leaves an `AuditEntry`, whatever page or action makes it.

Rows that Django saves or deletes while an admin's request runs are compared with what the
database held before, in the same transaction. Actions that change rows by a statement of
their own say what they did in the admin's log, and their rows are compared there. What says
nothing is found when the request ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import unquote
from django.core.exceptions import ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_save, pre_delete, pre_save
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from foldline.tenants.models import AuditEntry

Row = Mapping[str, Any]
Changes = dict[str, list[Any]]

PAGES = "/admin/"
READING = ("GET", "HEAD", "OPTIONS")
SECRETS = ("password", "digest")
HIDDEN = "(hidden)"
# Not changes of what the platform does: who is signed in, and the logs themselves.
_ASIDE = ("sessions.session", "admin.logentry", "tenants.auditentry")
# Where somebody listens, Django deletes row by row: these hold the rows an admin may delete,
# and none of them many.
_DELETABLE = ("auth", "tenants", "catalog")


@dataclass(kw_only=True)
class _Request:
    """An admin's request under way. Keys are (kind, primary key as text)."""

    actor: str
    before: dict[tuple[str, str], Row] = field(default_factory=dict)
    links: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    saved: set[tuple[str, str]] = field(default_factory=set)


_request: ContextVar[_Request | None] = ContextVar("admin_request", default=None)


class Audited:
    """Middleware: notices who changes things in the admin, and what it was before."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._answer = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        changing = request.path_info.startswith(PAGES) and request.method not in READING
        if not changing or not request.user.is_authenticated:
            return self._answer(request)
        under_way = _Request(actor=request.user.get_username())
        token = _request.set(under_way)
        try:
            return self._answer(request)
        finally:
            _request.reset(token)
            _tell_rest(under_way)

    def process_view(
        self, request: HttpRequest, view: Any, _args: Any, named: Mapping[str, Any]
    ) -> None:
        """Read the rows that a page or an action is about."""
        under_way = _request.get()
        page = getattr(view, "model_admin", None)
        if under_way is None or page is None:
            return
        about = [named["object_id"]] if "object_id" in named else []
        about += request.POST.getlist(ACTION_CHECKBOX_NAME)
        for key in map(unquote, about):
            row = _row(page.model, key)
            if row is not None:
                under_way.before[_kind(page.model), str(row[page.model._meta.pk.name])] = row


def listen() -> None:
    """Connect the signals; called once, when the tables are known."""
    pre_save.connect(_before_save, dispatch_uid="audit")
    post_save.connect(_after_save, dispatch_uid="audit")
    m2m_changed.connect(_links_changed, dispatch_uid="audit")
    post_save.connect(_logged, sender=LogEntry, dispatch_uid="audit of the log")
    for model in apps.get_models():
        if model._meta.app_label in _DELETABLE:
            pre_delete.connect(_before_delete, sender=model, dispatch_uid="audit")


def _before_save(sender: type[Model], instance: Model, **_: Any) -> None:
    under_way = _request.get()
    if under_way is not None and _kind(sender) not in _ASIDE:
        row = _row(sender, instance.pk)
        if row is None:
            under_way.before.pop(_key(instance), None)
        else:
            under_way.before[_key(instance)] = row


def _after_save(sender: type[Model], instance: Model, **_: Any) -> None:
    under_way = _request.get()
    if under_way is not None and _kind(sender) not in _ASIDE:
        key = _key(instance)
        before = under_way.before.get(key)
        after = _row(sender, instance.pk) or {}
        _write(under_way, instance, "change" if before else "add", _changes(before or {}, after))
        under_way.before[key] = after
        under_way.saved.add(key)


def _before_delete(sender: type[Model], instance: Model, **_: Any) -> None:
    under_way = _request.get()
    if under_way is not None and _kind(sender) not in _ASIDE:
        _write(under_way, instance, "delete", _changes(_row(sender, instance.pk) or {}, {}))
        under_way.before.pop(_key(instance), None)


def _links_changed(sender: type[Model], instance: Model, action: str, **_: Any) -> None:
    """Rows that link two tables: a user's groups, a group's permissions."""
    under_way = _request.get()
    if under_way is None:
        return
    for link in instance._meta.many_to_many:
        if link.remote_field.through is not sender:
            continue
        key = (*_key(instance), link.name)
        now = sorted(str(other) for other in getattr(instance, link.name).all())
        if action.startswith("pre_"):
            under_way.links[key] = now
        else:
            _write(under_way, instance, "change", _changes(
                {link.name: under_way.links[key]}, {link.name: now}
            ))  # fmt: skip


def _logged(instance: LogEntry, **_: Any) -> None:
    """What an action did without saving a row, and what it said about it."""
    under_way = _request.get()
    if under_way is None or instance.content_type is None:
        return
    key = (".".join(instance.content_type.natural_key()), str(instance.object_id))
    if key in under_way.saved and _is_of_a_form(instance):
        return
    row = instance.get_edited_object()
    after = _row(type(row), row.pk) or {}
    changes = _changes(under_way.before.get(key, after), after)
    if not _is_of_a_form(instance):
        changes["note"] = [None, instance.change_message]
    _write(under_way, row, "change", changes)
    under_way.before[key] = after


def _tell_rest(under_way: _Request) -> None:
    """Rows that the page was about and that something changed without a word."""
    for (kind, key), before in under_way.before.items():
        model = apps.get_model(kind)
        changes = _changes(before, _row(model, key) or {})
        if changes:
            row = model._base_manager.filter(pk=key).first() or model(pk=key)
            _write(under_way, row, "change", changes)


def _is_of_a_form(entry: LogEntry) -> bool:
    """Django's own pages write JSON: only the names of fields."""
    return entry.change_message.startswith("[") or not entry.change_message


def note(row: Model, *, actor: str, changes: Changes) -> None:
    """A change that the platform made by itself: who, and {field: [before, after]}."""
    _enter(actor, row, "change", changes)


def _write(under_way: _Request, instance: Model, action: str, changes: Changes) -> None:
    if changes:
        _enter(under_way.actor, instance, action, changes)


def _enter(actor: str, instance: Model, action: str, changes: Changes) -> None:
    kind, object_id = _key(instance)
    AuditEntry.objects.create(
        actor=actor,
        action=action,
        kind=kind,
        object_id=object_id,
        label=str(instance)[:200],
        changes=json.loads(json.dumps(changes, cls=DjangoJSONEncoder)),
    )


def _changes(before: Row, after: Row) -> Changes:
    """{field: [before, after]} of what differs; of a secret only that it does."""
    found: Changes = {}
    for name in {**before, **after}:
        pair = [before.get(name), after.get(name)]
        if pair[0] != pair[1]:
            found[name] = [value and HIDDEN for value in pair] if name in SECRETS else pair
    return found


def _row(model: type[Model], key: object) -> Row | None:
    """A row as the database holds it; None when there is none."""
    columns = {column.attname: column.name for column in model._meta.concrete_fields}
    try:
        row = model._base_manager.filter(pk=key).values(*columns).first()
    except (ValidationError, ValueError):
        return None  # no key of this table
    return row and {columns[name]: value for name, value in row.items()}


def _key(instance: Model) -> tuple[str, str]:
    return _kind(type(instance)), str(instance.pk)


def _kind(model: type[Model]) -> str:
    return model._meta.label_lower

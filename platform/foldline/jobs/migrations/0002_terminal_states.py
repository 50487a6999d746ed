"""The database itself refuses to let a job leave a terminal state.

A migration that rebuilds jobs_job on SQLite (Django does so to alter a column) drops the
trigger and must create it again; tests/foldline/jobs/test_models.py notices.
"""

from __future__ import annotations

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

TERMINAL = "('succeeded', 'failed', 'cancelled', 'expired')"

POSTGRES = (
    f"""
    create function jobs_keep_terminal() returns trigger language plpgsql as $$
    begin
        raise exception 'job % is %, a terminal state', old.id, old.state
            using errcode = 'check_violation';
    end $$
    """,
    f"""
    create trigger jobs_terminal before update of state on jobs_job for each row
    when (old.state in {TERMINAL} and new.state is distinct from old.state)
    execute function jobs_keep_terminal()
    """,
)
SQLITE = (
    f"""
    create trigger jobs_terminal before update of state on jobs_job
    when old.state in {TERMINAL} and new.state is not old.state
    begin select raise(abort, 'a job cannot leave a terminal state'); end
    """,
)


def create(_apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    for statement in POSTGRES if editor.connection.vendor == "postgresql" else SQLITE:
        editor.execute(statement, None)  # no parameters: the text holds a %


def drop(_apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    if editor.connection.vendor == "postgresql":
        editor.execute("drop trigger jobs_terminal on jobs_job")
        editor.execute("drop function jobs_keep_terminal")
    else:
        editor.execute("drop trigger jobs_terminal")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]
    operations = [migrations.RunPython(create, drop)]

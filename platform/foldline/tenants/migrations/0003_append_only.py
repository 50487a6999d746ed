"""The database itself refuses to change or delete a line of the ledger or of the audit."""

from __future__ import annotations

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

TABLES = ("tenants_ledgerline", "tenants_auditentry")
CHANGES = ("update", "delete")

POSTGRES_FUNCTION = """
create function tenants_append_only() returns trigger language plpgsql as $$
begin
    raise exception '% is append-only', tg_table_name using errcode = 'check_violation';
end $$
"""


def create(_apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    postgres = editor.connection.vendor == "postgresql"
    if postgres:
        editor.execute(POSTGRES_FUNCTION, None)  # no parameters: the text holds a %
    body = (
        "for each row execute function tenants_append_only()"
        if postgres
        else "begin select raise(abort, 'append-only'); end"
    )
    for table in TABLES:
        for change in CHANGES:
            editor.execute(f"create trigger {table}_{change} before {change} on {table} {body}")


def drop(_apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    postgres = editor.connection.vendor == "postgresql"
    for table in TABLES:
        for change in CHANGES:
            on = f" on {table}" if postgres else ""
            editor.execute(f"drop trigger {table}_{change}{on}")
    if postgres:
        editor.execute("drop function tenants_append_only")


class Migration(migrations.Migration):
    dependencies = [("tenants", "0002_quotas_and_ledger")]
    operations = [migrations.RunPython(create, drop)]

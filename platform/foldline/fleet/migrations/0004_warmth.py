import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0002_price"),
        ("fleet", "0003_sharing"),
    ]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="placing",
            field=models.JSONField(
                null=True,
                blank=True,
                help_text="As the scaler saw it: its node, and the seconds it waited for that and"
                " its image.",
            ),
        ),
        migrations.CreateModel(
            name="NodeWeights",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("node", models.CharField(max_length=253)),
                ("at", models.DateTimeField(help_text="When they were read last.")),
                ("size_bytes", models.PositiveBigIntegerField(default=0)),
                ("seconds", models.FloatField(default=0.0)),
                ("trouble", models.TextField(blank=True, help_text="Empty: as reviewed.")),
                (
                    "revision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="catalog.revision",
                        db_index=False,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("revision", "node"), name="weights_once_per_node"
                    )
                ],
            },
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('notify', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='TryCount',
            fields=[
                ('result', models.CharField(choices=[('taken', 'taken'), ('refused', 'refused'), ('unanswered', 'unanswered')], max_length=10, primary_key=True, serialize=False)),
                ('tries', models.PositiveBigIntegerField()),
            ],
        ),
    ]

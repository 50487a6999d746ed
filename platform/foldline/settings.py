"""Every setting of the control plane. Values come from the environment; wrong ones fail loudly.

docs/settings.md lists them. Nothing is imported from here: use `django.conf.settings`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import environ

from foldline.environment import ROOT, home, secret

env = environ.Env()

HOME = home()
SECRET_KEY = secret("secret_key")
DEBUG = env.bool("FOLDLINE_DEBUG", default=False)
PUBLIC = env.bool("FOLDLINE_PUBLIC", default=False)  # served over https to other machines
ALLOWED_HOSTS = env.list("FOLDLINE_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
PORT = env.int("FOLDLINE_PORT", default=8000)
FLOWER_PORT = env.int("FOLDLINE_FLOWER_PORT", default=5555)
THREADS = env.int("FOLDLINE_THREADS", default=8)  # of one gateway process, for Django
BASE_URL = env.str("FOLDLINE_BASE_URL", default=f"http://127.0.0.1:{PORT}")
CSRF_TRUSTED_ORIGINS = [BASE_URL] if PUBLIC else []

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_prometheus",
    "drf_spectacular",
    "rest_framework",
    "foldline.tenants",
    "foldline.catalog",
    "foldline.fleet",
    "foldline.artifacts",
    "foldline.jobs",
    "foldline.forecasts",
    "foldline.notify",
    "foldline.api",
    "foldline.ops",
]
AUTH_USER_MODEL = "tenants.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

MIDDLEWARE = [
    "foldline.api.middleware.RequestId",
    "django.middleware.security.SecurityMiddleware",
    "foldline.api.middleware.ApiRoad",  # what follows is for pages only
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "foldline.tenants.audit.Audited",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]
ROOT_URLCONF = "foldline.urls"
WSGI_APPLICATION = "foldline.wsgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# The gateway hears within two seconds that the database does not answer, and says so: its
# caller is waiting. A worker, the sweeper and a migration wait as long as it takes.
GATEWAY = env.str("FOLDLINE_ROLE", default="") == "gateway"  # set by gunicorn.conf.py

# SQLite's IMMEDIATE takes the write lock when a transaction begins. Without it a reader
# that becomes a writer fails at once with "database is locked", whatever the timeout.
SQLITE_OPTIONS = {
    "timeout": 1.5 if GATEWAY else 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": (
        "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;"
        # Hot pages are copied back once for many commits, and read without a system call.
        "PRAGMA wal_autocheckpoint=4000;PRAGMA mmap_size=268435456;"
    ),
}
# A process that was frozen in mid-transaction loses its locks before its lease is judged.
_SESSION = {"idle_in_transaction_session_timeout": "20s"}
_HASTE = {"statement_timeout": "1500ms", "lock_timeout": "1500ms"}
POSTGRES_OPTIONS = {
    "connect_timeout": 2 if GATEWAY else 10,
    "tcp_user_timeout": 1_500 if GATEWAY else 20_000,  # ms without a sign of the other side
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "options": " ".join(
        f"-c {name}={value}" for name, value in {**_SESSION, **(_HASTE if GATEWAY else {})}.items()
    ),
}
DATABASES: dict[str, dict[str, Any]] = {
    "default": env.db_url("DATABASE_URL", default=f"sqlite:///{HOME / 'db.sqlite3'}")
}
_database = DATABASES["default"]
_database["CONN_MAX_AGE"] = None
if _database["ENGINE"].endswith("sqlite3"):
    _database["OPTIONS"] = SQLITE_OPTIONS
    # Tests use a file too: an in-memory database cannot be shared between processes.
    _database["TEST"] = {"NAME": str(HOME / "test.sqlite3")}
else:
    _database["OPTIONS"] = {**POSTGRES_OPTIONS, **_database.get("OPTIONS", {})}
    _database["DISABLE_SERVER_SIDE_CURSORS"] = True  # for PgBouncer in transaction mode
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Without REDIS_URL, `manage.py up` starts a Redis of its own. Its password keeps other
# users of this machine out.
REDIS_PORT = env.int("FOLDLINE_REDIS_PORT", default=6390)
REDIS_URL = env.str(
    "REDIS_URL", default=f"redis://:{secret('redis_password')}@127.0.0.1:{REDIS_PORT}/0"
)
# News of jobs for callers who wait. May be lost at any time, so another Redis serves as well.
EVENTS_URL = env.str("FOLDLINE_EVENTS_URL", default=REDIS_URL)

# Callers who wait, in each gateway process. Each costs memory and no thread.
MOST_WAITS = env.int("FOLDLINE_MOST_WAITS", default=2_000)
MOST_WAITS_OF_TENANT = env.int("FOLDLINE_MOST_WAITS_OF_TENANT", default=100)

# The job protocol. Bounds of the promises in docs/guarantees.md.
HEARTBEAT_S = env.float("FOLDLINE_HEARTBEAT_S", default=5.0)
LEASE_S = env.float("FOLDLINE_LEASE_S", default=20.0)
SWEEP_S = env.float("FOLDLINE_SWEEP_S", default=5.0)
MAX_ATTEMPTS = 3
KEEP_KEYS_DAYS = env.float("FOLDLINE_KEEP_KEYS_DAYS", default=7.0)
KEEP_JOBS_DAYS = env.float("FOLDLINE_KEEP_JOBS_DAYS", default=30.0)
KEEP_FILES_DAYS = env.float("FOLDLINE_KEEP_FILES_DAYS", default=7.0)  # that no job names

# The scaler, and what it starts workers with.
SCALER_TARGET = env.str("FOLDLINE_SCALER_TARGET", default="local")
LOCAL_WORKERS = env.int("FOLDLINE_LOCAL_WORKERS", default=2)  # at once, on this machine
WORKER_GRACE_S = env.float("FOLDLINE_WORKER_GRACE_S", default=0.0)  # 0: as long as a job may run
WORKER_IMAGES = env.dict("FOLDLINE_WORKER_IMAGES", default={})  # by runtime
NAMESPACE = env.str("FOLDLINE_NAMESPACE", default="foldline")
GPU_FLAVOUR = env.str("FOLDLINE_GPU_FLAVOUR", default="whole")
GPU_NODES = env.dict("FOLDLINE_GPU_NODES", default={})  # labels of the nodes with our cards
GPU_CARDS_PER_NODE = env.int("FOLDLINE_GPU_CARDS_PER_NODE", default=0)  # 0: the nodes say it
KUEUE_QUEUE = env.str("FOLDLINE_KUEUE_QUEUE", default="")

# Webhooks: hosts that may be told although they are private or speak http, as `host:port`.
WEBHOOK_HOSTS = env.list("FOLDLINE_WEBHOOK_HOSTS", default=[])
KEEP_DELIVERIES_DAYS = env.float("FOLDLINE_KEEP_DELIVERIES_DAYS", default=30.0)

CURRENCY = env.str("FOLDLINE_CURRENCY", default="USD")  # of every price and cost

MAX_BODY_BYTES = 1024 * 1024
PREFLIGHT_S = env.float("FOLDLINE_PREFLIGHT_S", default=2.0)  # 0: workers alone check inputs
MAX_UPLOAD_BYTES = env.int("FOLDLINE_MAX_UPLOAD_BYTES", default=64 * 1024 * 1024)
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
ARTIFACTS_DIR = Path(env.str("FOLDLINE_ARTIFACTS", default=str(HOME / "artifacts")))
PLUGIN_DIRS = [Path(p) for p in env.list("FOLDLINE_PLUGIN_DIRS", default=[])]

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["foldline.api.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["foldline.api.authentication.HasScope"],
    "DEFAULT_PARSER_CLASSES": ["foldline.api.parsing.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["foldline.api.rendering.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "foldline.api.openapi.Operations",
    "EXCEPTION_HANDLER": "foldline.api.problems.exception_handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Foldline",
    "VERSION": "1",
    "DESCRIPTION": "Scientific models as tools: submit a job, watch it, fetch its structure.",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/v1",
    "POSTPROCESSING_HOOKS": [],  # the one there is names enums by guess, and `state` has several
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False
FORMAT_MODULE_PATH = "foldline.formats"
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True  # nothing is collected: files are served from where they lie
WHITENOISE_AUTOREFRESH = DEBUG

# Behind https these are strict; on a laptop's loopback they would lock the admin out.
SECURE_SSL_REDIRECT = PUBLIC
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$", r"^scaling/"]  # from inside, by http
SECURE_HSTS_SECONDS = 31_536_000 if PUBLIC else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = PUBLIC
SECURE_HSTS_PRELOAD = PUBLIC
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if PUBLIC else None
SESSION_COOKIE_SECURE = PUBLIC
CSRF_COOKIE_SECURE = PUBLIC
X_FRAME_OPTIONS = "DENY"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "foldline.ops.logs.formatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": env.str("FOLDLINE_LOG_LEVEL", default="INFO")},
    "loggers": {"django.server": {"level": "WARNING"}},
}

UNFOLD = {"SITE_TITLE": "Foldline", "SITE_HEADER": "Foldline", "SITE_SYMBOL": "genetics"}

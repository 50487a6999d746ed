"""Django as a WSGI application; the gateway puts it behind `foldline.waiting`."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "foldline.settings")

application = get_wsgi_application()

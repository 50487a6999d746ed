"""How many workers each model gets and on which card: sense, decide, act.

Empty until the scaler is built. Until then `manage.py up` keeps one worker for each live
revision.
"""

from __future__ import annotations

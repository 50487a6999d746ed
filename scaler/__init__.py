"""How many workers each model gets and on which card: sense, decide, act.

`sources` looks, `brain` decides, `targets` act, `loop` goes round; `python -m scaler` runs it.
"""

from __future__ import annotations

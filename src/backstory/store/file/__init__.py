"""The file of a store: opened, checked, copied, packed, and brought from an earlier schema.

Its maintenance is imported when something of it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.lazy import lazy_module

if TYPE_CHECKING:
    from backstory.store.file import maintenance
else:
    maintenance = lazy_module("backstory.store.file.maintenance")

__all__ = ["maintenance"]

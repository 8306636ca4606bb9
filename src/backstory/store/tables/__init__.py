"""A module a table or a few that belong together: their rows read and written. Functions take the connection.

Modules that few commands need are imported when something of them is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.lazy import lazy_module

if TYPE_CHECKING:
    from backstory.store.tables import branches, compactions, decisions, events, lineage, plan
else:
    branches = lazy_module("backstory.store.tables.branches")
    compactions = lazy_module("backstory.store.tables.compactions")
    decisions = lazy_module("backstory.store.tables.decisions")
    events = lazy_module("backstory.store.tables.events")
    lineage = lazy_module("backstory.store.tables.lineage")
    plan = lazy_module("backstory.store.tables.plan")

__all__ = ["branches", "compactions", "decisions", "events", "lineage", "plan"]

"""The places of OpenHands' conversations below its own folder, and its name here."""

from __future__ import annotations

NAME = "openhands"
CONVERSATIONS, EVENTS, STATE = "conversations", "events", "base_state.json"

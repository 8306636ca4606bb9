"""The tools by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.mcp.board_tool import BoardTool
from backstory.mcp.find_tools import FileHistory, FindFix, SearchSessions
from backstory.mcp.read_tools import Expand, GetSession
from backstory.mcp.sql_tool import SessionStoreSql

if TYPE_CHECKING:
    from backstory.mcp.answer import Tool

TOOLS: dict[str, type[Tool]] = {
    each.name: each for each in (SearchSessions, GetSession, Expand, FindFix, FileHistory, SessionStoreSql, BoardTool)
}

"""A machine of a person that tells a team's server of a run that goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.exchange import frames
from tests.support.clock import NOW
from tests.support.senders import UID, Sender, exported, line

if TYPE_CHECKING:
    from backstory.server.people import LetIn
    from tests.support.team import Team

RUN = "01M3250V00RRRRRRRRRRRRRRRR"
APP = "github.com/me/app"


class LiveSender(Sender):
    """A machine that tells of a run."""

    def __init__(self, team: Team, who: LetIn) -> None:
        super().__init__(team, who)
        self.next = 1

    def tells(self, *texts: str, uid: str = UID, expects: int = 200, **fields: Any) -> dict[str, Any]:
        """Tell what the agent said since."""
        events = [{"AssistantText": {"text": each}} for each in texts]
        part = {
            "uid": uid, "run": RUN, "repository": APP, "agent": "claude", "started": NOW, "first": self.next,
            "events": events,
        } | fields  # fmt: skip
        answer = self.team.client.post("/v1/live", json=part, headers=self.headers)
        assert answer.status_code == expects, answer.text
        said: dict[str, Any] = answer.json()
        if said.get("next"):
            self.next = said["next"]
        return said

    def begins(self, *texts: str, **fields: Any) -> None:
        self.tells(**{"events": [{"UserMessage": {"content": "Where?"}}], **fields})
        if texts:
            self.tells(*texts, **fields)

    def stores(self, *texts: str) -> list[str]:
        """The run is over, and its frames are sent."""
        lines = exported(["Where?", *texts])
        turn = line(
            "turn", uid=RUN, first_seq=1, last_seq=len(texts) + 1, agent="claude", prompt="Where?", outcome="completed"
        )
        lines = [lines[0], turn, *(each.replace(UID.encode(), RUN.encode()) for each in lines[2:-1]), lines[-1]]
        lines[2:-1] = [each.replace(b'"turn":"' + UID.encode(), b'"turn":"' + RUN.encode()) for each in lines[2:-1]]
        return self.send(*frames.frames(lines, session=UID, is_redacted=True))

    def rows(self) -> dict[str, int]:
        """The rows that the organisation has of runs that go on."""
        with self.team.database.of(self.tenant) as rows:
            return {
                table: rows.execute(f"select count(*) from {table}".encode()).fetchall()[0][0]
                for table in ("live", "live_run")
            }

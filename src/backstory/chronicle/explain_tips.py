"""The SQL that returns what a tip counts, for ``backstory sql``: its prompts or its calls, one a row."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from backstory.chronicle.tips import rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.chronicle.patterns.finding import Tip
    from backstory.chronicle.tips import TipsReport

RULE_COLUMNS = 110
_TURN = (
    "t.timestamp, t.agent, t.model, t.largest_input_tokens, t.cache_read_tokens, t.cache_write_tokens, "
    "t.output_tokens, t.low_usd, substr(t.user_message, 1, 80) as prompt"
)
_CALL = "t.at, t.tool_name, t.file_path, t.command, t.is_error, t.duration_ms, substr(t.output, 1, 80) as output"


def explained(report: TipsReport, *, about_costs: bool) -> Iterator[str]:
    """The rule of each pattern, then the query of each tip."""
    for name, rule in rules(about_costs=about_costs).items():
        lines = textwrap.fill(rule, RULE_COLUMNS, initial_indent="--   ", subsequent_indent="--   ")
        yield f"-- {name}\n{lines}\n"
    for number, finding in enumerate(report.findings, 1):
        yield f"-- tip {number}: {finding.pattern}, {finding.count:,} times\n{query(finding)};\n"


def query(finding: Tip) -> str:
    """A query with a row for each prompt or call that a finding counts."""
    counted = ", ".join(
        f"('{evidence.context}', {seq})" for evidence in finding.evidence for seq in evidence.seqs
    )  # fmt: skip
    view, seq, columns = ("tool_calls", "seq", _CALL) if finding.is_calls else ("turns", "first_seq", _TURN)
    return (
        f"with counted(uid, seq) as (values {counted})\nselect s.uid as session, t.{seq} as seq, {columns}\n"
        f"from counted c join sessions s on s.uid = c.uid join {view} t on t.session_id = s.id and t.{seq} = c.seq\n"
        f"order by 1, 2"
    )

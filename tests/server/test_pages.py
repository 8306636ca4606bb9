"""The pages of a server: who comes in, by what, and what each may see there."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import psycopg
import pytest
from starlette.testclient import TestClient

from backstory.errors import DatabaseUnusable
from backstory.server import one_session
from backstory.server import pages as server_pages
from backstory.server.api import Api
from backstory.server.door import UNREACHED, BrowserNames
from backstory.server.limits import Limits
from backstory.server.people import People
from backstory.web.access import HEADERS
from tests.support.clock import NOW
from tests.support.desks import Desk
from tests.support.machines import SMALL, Machine
from tests.support.senders import DESK, LAPTOP, OTHER, UID, Sender, cut
from tests.support.team_pages import CODE, TeamVisitor, send_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.pages import Answer
    from tests.support.team import Team

RUN = "01M3250V00CJ5X1JHP0Z69AWRN"
NOBODYS = "01M3250V00CJ5X1JHP0Z69AWST"
CSRF = re.compile(r'name="csrf" value="(\w+)"')


@pytest.fixture(scope="module")
def served(made_team: Team) -> Iterator[str]:
    with made_team.served() as address:
        yield address


@pytest.fixture
def anna(team: Team) -> Sender:
    return Sender(team, team.founded())


@pytest.fixture
def stranger(team: Team, served: str) -> TeamVisitor:
    return TeamVisitor(team, served)


@pytest.fixture
def visitor(anna: Sender, stranger: TeamVisitor) -> TeamVisitor:
    """Anna's browser."""
    stranger.come_in(anna.who)
    return stranger


def test_a_browser_comes_in_by_a_code_and_goes_on_where_it_was(anna: Sender, stranger: TeamVisitor) -> None:
    anna.send(*cut([["a word of anna"]]))
    anna.team.derive(anna.who)
    asked = stranger.get(f"/s/{UID}/1?x=1")
    assert (asked.status, asked.headers["location"]) == (303, f"/login?next=%2Fs%2F{UID}%2F1%3Fx%3D1")
    answer = stranger.come_in(anna.who, wanted=asked.headers["location"].removeprefix("/login"))
    assert (answer.status, answer.headers["location"]) == (303, f"/s/{UID}/1?x=1")
    assert "a word of anna" in stranger.get(f"/s/{UID}/1").text


# the login ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted",
    ["//evil.example", "https://evil.example", "/\\evil.example", "/login", "/sx", "/s/a\r\nb", "/%2Fevil", ""],
)
def test_a_login_leads_to_no_other_site(wanted: str, anna: Sender, stranger: TeamVisitor) -> None:
    answer = stranger.come_in(anna.who, wanted=f"?{urlencode({'next': wanted})}")
    assert (answer.status, answer.headers["location"]) == (303, "/sessions")


@pytest.mark.parametrize(
    "path", ["/", "/sessions", f"/s/{UID}", f"/s/{UID}/1/block", "/changes", "/account", "/nothing"]
)
def test_who_is_not_in_is_led_to_the_login_from_everywhere(path: str, stranger: TeamVisitor) -> None:
    answer = stranger.get(path)
    assert (answer.status, answer.headers["location"].partition("?")[0]) == (303, "/login")
    assert stranger.get(path, headers={"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}).status == 401


def test_a_link_on_another_site_is_asked_for_again_by_a_page_of_ours(
    visitor: TeamVisitor, stranger: TeamVisitor
) -> None:
    """A browser brings no Strict cookie along when it follows one."""
    cookie, visitor.cookie = visitor.cookie, ""
    followed = visitor.get("/sessions", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
    assert (followed.status, 'http-equiv="refresh" content="0"' in followed.text) == (200, True)
    visitor.cookie = cookie
    own = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate"}
    assert visitor.get("/sessions", headers=own).status == 200


def test_the_cookie_is_for_the_server_alone(anna: Sender, stranger: TeamVisitor) -> None:
    stranger.code()
    answer = stranger.come_in(anna.who)
    (line,) = (each for each in answer.cookies if "bks_" in each)
    port = stranger.host.partition(":")[2]
    assert line.startswith(f"backstory-{port}=bks_")
    assert {each.strip().lower() for each in line.split(";")[1:]} == {
        "httponly", "samesite=strict", "path=/", f"max-age={30 * 86_400}",
    }  # fmt: skip


def test_where_the_way_is_encrypted_the_cookie_goes_no_other(team: Team, anna: Sender) -> None:
    api = Api(team.database, team.folder, team.now, Limits(10_000), names=BrowserNames(is_encrypted=True))
    with TestClient(api.app(), base_url="https://team.example") as client:
        code = CODE.search(client.get("/login").text)
        assert code is not None
        team.ask("POST", "/v1/login/approve", anna.token, {"code": code[1]})
        lines = client.get("/login", follow_redirects=False).headers.get_list("set-cookie")
        assert [(each.startswith("__Host-backstory"), "; Secure" in each) for each in lines] == [(True, True)] * 2
        assert client.get("/sessions").status_code == 200


def test_a_code_stays_while_the_browser_waits_and_another_browser_has_another(
    stranger: TeamVisitor, team: Team, served: str
) -> None:
    code = stranger.code()
    assert stranger.code() == code
    assert TeamVisitor(team, served).code() != code
    team.clock.ms += 601_000
    assert stranger.code() != code


def test_a_login_may_read_and_search_and_steers_only_if_that_was_said(anna: Sender, team: Team, served: str) -> None:
    for steers, scopes in ((False, ["read", "search"]), (True, ["read", "search", "steer"])):
        visitor = TeamVisitor(team, served)
        visitor.come_in(anna.who, steer=steers)
        token = visitor.cookie.partition("=")[2]
        _, logins = team.ask("GET", "/v1/logins", anna.token)
        found = next(each for each in logins["logins"] if each["name"].startswith("browser"))
        assert (found["scopes"], found["repositories"]) == (scopes, None)
        for method, path in (("POST", "/v1/invites"), ("GET", "/v1/logins"), ("POST", "/v1/login/approve"),
                             ("DELETE", "/v1/sessions"), ("POST", "/v1/state")):  # fmt: skip
            assert team.ask(method, path, token, {"code": "x", "uids": []})[0] == 403, path
        assert team.ask("DELETE", f"/v1/logins/{found['id']}", anna.token)[0] == 200
        assert visitor.get("/sessions").status == 303


def test_a_machine_is_not_let_in_as_a_browser_that_steers(anna: Sender, team: Team) -> None:
    waiting = team.people.wait("desk")
    asked = {"code": waiting.code, "steer": True}
    assert team.ask("POST", "/v1/login/approve", anna.token, asked)[0] == 404
    assert team.people.come_in(waiting.login) is None


def test_a_login_ends_after_a_month(visitor: TeamVisitor, team: Team) -> None:
    assert visitor.get("/sessions").status == 200
    team.clock.ms += 30 * 86_400_000
    assert visitor.get("/sessions").status == 303


def test_the_end_of_a_login_needs_the_word_of_its_own_page(visitor: TeamVisitor) -> None:
    csrf = CSRF.search(visitor.get("/account").text)
    assert csrf is not None
    own = {"Origin": f"http://{visitor.host}"}
    for fields, headers in (
        ({}, own), ({"csrf": "x"}, own), ({"csrf": csrf[1]}, {"Origin": "http://evil.example"}),
        ({"csrf": csrf[1]}, {"Origin": ""}), ({"csrf": csrf[1]}, own | {"Sec-Fetch-Site": "cross-site"}),
    ):  # fmt: skip
        assert visitor.post("/logout", fields, headers).status == 403, (fields, headers)
        assert visitor.get("/sessions").status == 200
    before = visitor.cookie
    answer = visitor.keep(visitor.post("/logout", {"csrf": csrf[1]}))
    assert (answer.status, answer.headers["location"], visitor.cookies) == (303, "/login", {})
    visitor.cookie = before
    assert visitor.get("/sessions").status == 303


@pytest.mark.parametrize(("broken", "path"), [("caller", "/sessions"), ("organisation", "/account")])
def test_a_database_that_is_gone_is_said_on_the_page(
    broken: str, path: str, visitor: TeamVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any) -> None:
        raise DatabaseUnusable("it is gone")

    monkeypatch.setattr(People, broken, gone)
    answer = visitor.get(path)
    assert (answer.status, UNREACHED in html.unescape(answer.text)) == (503, True)


def test_a_logout_without_a_database_says_so(visitor: TeamVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    csrf = CSRF.search(visitor.get("/account").text)
    assert csrf is not None

    def gone(*_: Any) -> None:
        raise DatabaseUnusable("it is gone")

    monkeypatch.setattr(People, "leave_machine", gone)
    assert visitor.post("/logout", {"csrf": csrf[1]}).status == 503


def test_a_token_that_may_not_read_opens_no_page(anna: Sender, team: Team, stranger: TeamVisitor) -> None:
    _, made = team.ask("POST", "/v1/logins", anna.token, {"name": "x", "scopes": ["sync"]})
    stranger.cookie = f"backstory-{stranger.host.partition(':')[2]}={made['token']}"
    assert stranger.get("/sessions").status == 403


@pytest.mark.parametrize("path", ["/sessions", f"/s/{UID}", "/login", "/static/page.js", "/nothing", "/account"])
def test_every_answer_says_what_the_browser_must_not_do(
    path: str, visitor: TeamVisitor, team: Team, served: str
) -> None:
    for each in (visitor, TeamVisitor(team, served)):
        answer = each.get(path)
        assert {name: answer.headers.get(name.lower()) for name in HEADERS} == HEADERS


@pytest.mark.parametrize("mode", ["cors", "no-cors", "websocket"])
def test_what_another_site_loads_is_refused(mode: str, visitor: TeamVisitor) -> None:
    asked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode}
    assert visitor.get("/sessions", headers=asked).status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/sessions", f"/s/{UID}", "/act/run", f"/act/{UID}/cancel", "/new"])
def test_nothing_acts_but_what_a_page_has_a_form_for(method: str, path: str, visitor: TeamVisitor) -> None:
    assert visitor.get(path, method=method, headers={"Origin": f"http://{visitor.host}"}).status in (404, 405)


def test_who_logs_in_too_often_waits(team: Team, anna: Sender) -> None:
    api = Api(team.database, team.folder, team.now, Limits(3, 0.0))
    with TestClient(api.app()) as client:
        assert [client.get("/login").status_code for _ in range(5)] == [200, 200, 200, 429, 429]


# what is there --------------------------------------------------------------------------------------------------------


def test_the_list_has_everybodys_sessions_with_their_person_and_is_chosen_by_it(
    anna: Sender, visitor: TeamVisitor, team: Team
) -> None:
    ben = Sender(team, team.joined(anna.who, "ben"), DESK)
    anna.send(*cut([["a"]], title="of anna"))
    ben.send(*cut([["b"]], uid=OTHER, title="of ben"))
    for each in (anna, ben):
        team.derive(each.who)
    rows = rows_of(visitor.get("/sessions").text)
    assert {(uid, "ben" in text) for uid, text in rows} == {(UID, False), (OTHER, True)}
    page = visitor.get("/sessions?person=ben")
    assert ([uid for uid, _ in rows_of(page.text)], "person: ben" in page.words) == ([OTHER], True)
    assert "1 session " in page.words


def test_the_list_goes_on_part_by_part(anna: Sender, visitor: TeamVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_pages, "ROWS", 2)
    uids = [f"01M3250V00CJ5X1JHP0Z69AW{letter}Q" for letter in "ABCDE"]
    for uid in uids:
        anna.send(*cut([["a"]], uid=uid))
    found, path = list[str](), "/sessions"
    while path:
        text = visitor.get(path).text
        found += [uid for uid, _ in rows_of(text)]
        more = re.search(r'href="([^"]+)" data-more', text)
        path = html.unescape(more[1]) if more else ""
    assert sorted(found) == uids


@pytest.mark.parametrize(
    "asked", ["status=failed", "tool=Bash", "since=sometime", "person=nobody", "after=x", "grep=%00", "path=x",
              "since=0001-01-01T00:00:00%2B23:59", "until=9999-12-31T23:59:59-23:59"]
)  # fmt: skip
def test_what_the_server_cannot_be_asked_is_a_page_that_says_so(asked: str, visitor: TeamVisitor) -> None:
    answer = visitor.get(f"/sessions?{asked}")
    assert (answer.status in (400, 404), "That is not to be had" in answer.text) == (True, True)


def test_a_permalink_shows_ones_own_copy_else_the_longest_and_names_the_others(
    anna: Sender, visitor: TeamVisitor, team: Team
) -> None:
    ben = Sender(team, team.joined(anna.who, "ben"), DESK)
    ben.send(*cut([["of ben", "more of ben"]]))
    assert "more of ben" in visitor.get(f"/s/{UID}").text
    anna.send(*cut([["of anna"]]))
    page = visitor.get(f"/s/{UID}")
    assert ("of anna" in page.text, "of ben" in page.text) == (True, False)
    (where,) = set(re.findall(rf'href="(/s/{UID}~[^"/]+)"', page.text))
    for path in (where, f"/s/{UID}?person=ben", f"/s/{UID}?person=ben&machine={DESK}"):
        other = visitor.get(path)
        assert "of ben" in other.text
        # Everything on the page is of that copy.
        links = set(re.findall(rf'(?:href|data-block)="(/s/{UID}[^"]*)"', other.text))
        assert {each for each in links if not each.startswith(where)} == {f"/s/{UID}"}
        assert "more of ben" in visitor.get(f"{where}/2/whole").text


@pytest.mark.parametrize("path", ["/nothing", "/s", f"/s/{UID}/1/2/3", "/compare", "/new", "/reports/behind"])
def test_an_address_of_no_page_leads_back_to_the_list(path: str, visitor: TeamVisitor) -> None:
    answer = visitor.get(path)
    assert (answer.status, "That is not to be had" in answer.words, "All sessions" in answer.words) == (404, True, True)


def test_a_session_is_opened_by_the_beginning_of_its_uid(anna: Sender, visitor: TeamVisitor) -> None:
    anna.send(*cut([["a word"]]))
    anna.team.derive(anna.who)
    assert "a word" in visitor.get(f"/s/{UID[:24]}").text


@pytest.mark.parametrize(
    "path", ["/s/{}", "/s/{}/1", "/s/{}/inside", "/s/{}/tree", "/s/{}/print", "/s/{}/markdown", "/s/{}/1/block",
             "/s/{}/1/whole", "/s/{}/1/image/0", "/s/{}?person=eve", "/s/{}~1~" + LAPTOP]
)  # fmt: skip
def test_what_is_anothers_and_what_is_not_there_have_one_answer(
    path: str, team: Team, anna: Sender, visitor: TeamVisitor, served: str
) -> None:
    eve, limited = Sender(team, team.founded("eve"), DESK), TeamVisitor(team, served)
    eve.send(*cut([["a"]], uid=OTHER))
    anna.send(*cut([["a"]]))
    nothing = visitor.get(path.format(NOBODYS))
    assert nothing.status == 404
    assert answered(visitor.get(path.format(OTHER)), OTHER) == answered(nothing, NOBODYS)
    asked = {"name": "x", "scopes": ["read"], "repositories": ["me/other"]}
    _, made = team.ask("POST", "/v1/logins", anna.token, asked)
    limited.cookie = f"backstory-{limited.host.partition(':')[2]}={made['token']}"
    assert answered(limited.get(path.format(UID)), UID) == answered(nothing, NOBODYS)


def answered(answer: Answer, uid: str) -> tuple[int, str]:
    """An answer without what was asked for."""
    return answer.status, answer.text.replace(uid, "UID")


def test_a_token_of_some_repositories_lists_only_these(anna: Sender, team: Team, stranger: TeamVisitor) -> None:
    anna.send(*cut([["a"]]))
    for repositories, count in ((["me/app"], 0), (["github.com/me/app"], 1)):
        asked = {"name": "x", "scopes": ["read"], "repositories": repositories}
        _, made = team.ask("POST", "/v1/logins", anna.token, asked)
        stranger.cookie = f"backstory-{stranger.host.partition(':')[2]}={made['token']}"
        assert len(rows_of(stranger.get("/sessions").text)) == count


def test_what_changed_has_another_stamp_and_is_on_the_page(anna: Sender, visitor: TeamVisitor) -> None:
    first, second = cut([["a"], ["the second"]])
    anna.send(first)
    before = visitor.get("/changes").text
    assert "the second" not in visitor.get(f"/s/{UID}").text
    anna.send(second)
    assert visitor.get("/changes").text != before
    assert "the second" in visitor.get(f"/s/{UID}").text


def test_a_removed_session_is_not_there_any_more(anna: Sender, visitor: TeamVisitor) -> None:
    anna.send(*cut([["a"]]))
    assert visitor.get(f"/s/{UID}").status == 200
    anna.forget()
    assert visitor.get(f"/s/{UID}").status == 404
    assert rows_of(visitor.get("/sessions").text) == []


def test_of_a_long_session_the_end_comes_first_and_leads_to_all_of_it(anna: Sender, visitor: TeamVisitor) -> None:
    anna.send(*cut([[f"entry {number}." for number in range(1, 2_200)]]))
    first = visitor.get(f"/s/{UID}")
    assert ("entry 2199." in first.text, "Only its last entries are here yet" in first.words) == (True, True)
    (whole,) = re.findall(r'data-earlier="([^"]+)"', first.text)
    blocks = re.findall(r'data-block="([^"]+)"', visitor.get(whole).text)
    assert "entry 1." in visitor.get(blocks[0]).text
    assert "Only its last entries" not in visitor.get(f"/s/{UID}").words


def test_what_is_not_there_in_a_session_leaves_its_file(
    anna: Sender, visitor: TeamVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna.send(*cut([["a"]]))
    visitor.get(f"/s/{UID}")
    monkeypatch.setattr(one_session, "build", None)
    assert visitor.get(f"/s/{UID}/9/whole").status == 404
    assert visitor.get(f"/s/{UID}").status == 200


def test_a_session_is_given_as_markdown_and_to_print(anna: Sender, visitor: TeamVisitor) -> None:
    anna.send(*cut([["a word of anna"]]))
    for path, kind in (("markdown", "text/markdown"), ("markdown?download=1", "text/markdown"), ("print", "text/html")):
        answer = visitor.get(f"/s/{UID}/{path}")
        assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, kind)
        assert "a word of anna" in answer.text


def rows_of(text: str) -> list[tuple[str, str]]:
    """The uids of the rows of a list, each with its text."""
    return [(found[1], each) for each in text.split("<tr>") if (found := re.search(r'href="/s/([0-9A-Z]{26})', each))]


# search and reports ---------------------------------------------------------------------------------------------------


@pytest.fixture
def team_of_two(anna: Sender, team: Team, tmp_path: Path) -> Sender:
    """Ben, with recorded logs; of Anna's team."""
    machine = Machine(tmp_path / "small")
    for each in SMALL:
        machine.put(each)
    machine.read()
    machine.close()
    ben = Sender(team, team.joined(anna.who, "ben"), DESK)
    send_all(ben, machine.store_path)
    anna.send(*cut([["a zebra of anna"]]))
    team.derive(anna.who)
    return ben


def test_a_search_finds_what_all_said_and_says_what_it_does_not_search(
    team_of_two: Sender, visitor: TeamVisitor
) -> None:
    page = visitor.get("/search?q=zebra")
    assert ("1 turn in 1 session" in page.words, "tool output is not searched here" in page.words) == (True, True)
    (where,) = re.findall(r'href="(/s/[^"]+)" data-hit', page.text)
    assert "a zebra of anna" in visitor.get(html.unescape(where)).text
    assert "<html" not in visitor.get("/search?q=zebra&part=1").text
    assert "Nothing found" in visitor.get("/search?q=zebra&person=ben").words
    assert visitor.get("/search?q=zebra&tool=Bash").status == 400


def test_a_search_finds_nothing_of_others(team_of_two: Sender, team: Team, served: str) -> None:
    eve, other = team.founded("eve"), TeamVisitor(team, served)
    other.come_in(eve)
    zebra, nothing = (other.get(f"/search?q={word}&part=1").text for word in ("zebra", "quetzal"))
    assert zebra == nothing


def test_a_login_that_may_only_read_does_not_search(anna: Sender, team: Team, stranger: TeamVisitor) -> None:
    _, made = team.ask("POST", "/v1/logins", anna.token, {"name": "x", "scopes": ["read"]})
    stranger.cookie = f"backstory-{stranger.host.partition(':')[2]}={made['token']}"
    assert (stranger.get("/search?q=a").status, stranger.get("/sessions").status) == (403, 200)


@pytest.mark.parametrize("name", ["standup", "costs", "activity"])
def test_a_report_is_of_the_organisation_or_a_part_of_it(name: str, team_of_two: Sender, visitor: TeamVisitor) -> None:
    page = visitor.get(f"/reports/{name}?period=3")
    assert page.status == 200, page.text
    links = set(re.findall(r'href="(/[^"?]*)', page.text))
    assert {each for each in links if each.startswith("/reports/")} == {
        "/reports/standup", "/reports/costs", "/reports/activity",
    }  # fmt: skip
    assert "select" not in page.text.partition("<main")[2].replace("<select", "").replace("</select", "")
    of_ben = visitor.get(f"/reports/{name}?period=3&person=ben")
    assert (of_ben.status, "person: ben" in of_ben.words, of_ben.words == page.words) == (200, True, False)


@pytest.mark.parametrize("path", ["/reports/tools", "/reports/none", "/reports/behind", "/reports/costs?agent=claude"])
def test_a_report_that_the_server_has_not_is_none(path: str, visitor: TeamVisitor) -> None:
    assert visitor.get(path).status in (400, 404)


# what runs, and the command -------------------------------------------------------------------------------------------


def run_of(sender: Sender, repository: str = "github.com/me/app") -> None:
    """A machine tells of a run that goes on."""
    part = {"uid": UID, "run": RUN, "repository": repository, "agent": "claude", "started": NOW, "first": 1,
            "events": [{"AssistantText": {"text": "while it runs"}}]}  # fmt: skip
    answer = sender.team.client.post("/v1/live", json=part, headers=sender.headers)
    assert answer.status_code == 200, answer.text


def test_a_session_that_runs_is_marked_in_the_list_and_followed_on_its_page(
    anna: Sender, visitor: TeamVisitor, team: Team
) -> None:
    anna.send(*cut([["a"]]))
    stamp = visitor.get("/changes").text
    assert [("running" in text) for _, text in rows_of(visitor.get("/sessions").text)] == [False]
    assert "data-live" not in visitor.get(f"/s/{UID}").text
    run_of(anna)
    assert visitor.get("/changes").text != stamp
    assert [("running" in text) for _, text in rows_of(visitor.get("/sessions").text)] == [True]
    (where,) = re.findall(r'data-live="([^"]+)"', visitor.get(f"/s/{UID}").text)
    with visitor.streamed(where) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert any("while it runs" in line for line in stream.iter_lines())
    team.clock.ms += 21_000
    assert [("running" in text) for _, text in rows_of(visitor.get("/sessions").text)] == [False]


def test_a_run_of_another_repository_changes_nothing_for_who_may_not_see_it(
    anna: Sender, team: Team, stranger: TeamVisitor
) -> None:
    asked = {"name": "x", "scopes": ["read"], "repositories": ["github.com/me/other"]}
    _, made = team.ask("POST", "/v1/logins", anna.token, asked)
    stranger.cookie = f"backstory-{stranger.host.partition(':')[2]}={made['token']}"
    stamp = stranger.get("/changes").text
    run_of(anna)
    assert stranger.get("/changes").text == stamp
    assert stranger.get(f"/s/{UID}/live").status == 404


def test_a_command_lets_a_browser_in_and_lists_it(
    team: Team, served: str, tmp_path: Path, stranger: TeamVisitor
) -> None:
    (tmp_path / "desk").mkdir()
    desk = Desk(tmp_path / "desk", team, served, 0)
    desk.log_in()
    done = desk.shell("login", "--approve", stranger.code(), "--steer")
    assert (done.code, "browser" in done.err) == (0, True), done.err
    assert stranger.keep(stranger.get("/login")).status == 303
    assert "read, search, steer" in stranger.get("/account").words
    assert "browser" in desk.shell("team", "logins").out
    assert desk.shell("login", desk.address, "--steer").code == 2


@pytest.mark.parametrize("path", ["/s/{}", "/s/{}/1/block", "/s/{}/live"])
def test_a_session_of_others_takes_the_work_of_one_that_is_not_there(
    path: str, team: Team, visitor: TeamVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    Sender(team, team.founded("eve"), DESK).send(*cut([["a"]], uid=OTHER))
    work = list[list[str]]()
    # The first request of a day notes that.
    visitor.get("/changes")
    for uid in (OTHER, NOBODYS):
        statements = list[str]()
        with monkeypatch.context() as patched:
            patched.setattr(psycopg.Cursor, "execute", noting(statements))
            assert visitor.get(path.format(uid)).status == 404
        work.append(statements)
    assert work[0] == work[1]
    assert len(work[0]) > 2


def noting(statements: list[str]) -> Any:
    """The method that sends a statement, which is noted with what it found."""
    really: Any = psycopg.Cursor.execute

    def execute(self: Any, query: Any, *values: Any, **more: Any) -> Any:
        found = really(self, query, *values, **more)
        statements.append(f"{query} {self.rowcount}")
        return found

    return execute

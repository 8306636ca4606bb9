"""What is masked and what is not: every shape in the places where secrets stand, and what only looks like one."""

from __future__ import annotations

import json
import random
import re
import string
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.derive.packed import Packed
from backstory.derive.secret_kinds import FORMS, FoundSecret, tokens
from backstory.derive.secret_shapes import SHORT_FORM, TOKEN_CHARS_MIN
from backstory.derive.secrets import HEADS_SOUGHT_MAX, KnownSecrets, Redactor
from backstory.model import ToolCall, event_to_json
from tests.support.clock import least_cpu_seconds
from tests.support.every import every
from tests.support.masks import NumberedRedactor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def letters(count: int, alphabet: str = string.ascii_letters + string.digits, seed: int = 7) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=count))


DASHED = string.ascii_letters + string.digits + "_-"
TOKENS = {
    "aws-access-key": "AKIA" + letters(16, string.ascii_uppercase + "234567"),
    "github-token": "ghp_" + letters(36),
    "github-token fine-grained": f"github_pat_{letters(22)}_{letters(59, seed=8)}",
    "openai-key": "sk-proj-" + letters(100, DASHED) + "Z",
    "openai-key old": "sk-" + letters(48),
    "anthropic-key": "sk-ant-api03-" + letters(93, DASHED) + "AA",
    "slack-token": f"xoxb-{letters(12, string.digits)}-{letters(13, string.digits)}-{letters(24)}",
    "stripe-key": "sk_live_" + letters(24),
    "google-api-key": "AIza" + letters(34, DASHED) + "Q",
    "npm-token": "npm_" + letters(36),
    "pypi-token": "pypi-AgEIcHlwaS5vcmc" + letters(80, DASHED) + "w",
    "gitlab-token": "glpat-" + letters(20),
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + letters(43, DASHED[:-1]),
}
PLACES = {
    "alone": "{}",
    "in a sentence": "Use {}, then go on.",
    "at a line's end": "key: {}\nnext line",
    "in JSON": '{{"a": ["{}"]}}',
    "in JSON inside JSON": '"{{\\"a\\": \\"{}\\"}}"',
    "behind an escaped line's end": '"first\\n{}\\nsecond"',
    "behind an escaped tab": '"first\\t{}\\tsecond"',
    "in a query": "https://example.com/?q=1&key={}&x=2",
    "in an encoded query": "https%3A%2F%2Fexample.com%2F%3Fkey%3D{}%26x%3D2",
    "in a login": "git clone https://x-access-token:{}@github.com/o/r",
    "in a path": "/tmp/{}/log.txt",
    "in quotes": "export KEY='{}'",
    "behind a colour": "\x1b[32m{}\x1b[0m",
}


@every("shape", TOKENS)
@every("place", PLACES)
def test_a_token_is_masked_wherever_it_stands(shape: str, place: str) -> None:
    secret = TOKENS[shape]
    text = PLACES[place].format(secret)
    redactor = NumberedRedactor()
    assert redactor.text(text) == text.replace(secret, f"[{shape.split()[0]}-1]")
    assert redactor.counts == {shape.split()[0]: 1}


@every("shape", TOKENS)
@every("end", ["\n", "\r\n", "\n    ", "\\\n", " │\n│ ", "\\n"], ids=repr)
def test_a_token_that_a_line_s_end_cuts_is_one_token(shape: str, end: str) -> None:
    secret, name = TOKENS[shape], shape.split()[0]
    for cut in range(len("github_pat_") + 1, len(secret) - 1, 7):
        before = "a line that is as long as a terminal is wide, with a key in it: "
        redactor = NumberedRedactor()
        masked = redactor.text(f"{before}{secret[:cut]}{end}{secret[cut:]} and more words")
        assert masked == f"{before}[{name}-1] and more words", cut
        assert redactor.text(secret) == f"[{name}-1]"


def test_a_token_is_found_that_is_cut_in_its_first_letters() -> None:
    secret = TOKENS["github-token"]
    for cut in range(1, 5):
        assert NumberedRedactor().text(f"key {secret[:cut]}\n{secret[cut:]}") == "key [github-token-1]"


@every(
    ("text", "masked"),
    [
        ("password=hunter22", "password=[password-1]"),
        ("DB_PASSWORD: 'correct-horse1'", "DB_PASSWORD: '[password-1]'"),
        ('{"password": 12345678}', '{"password": "[password-1]"}'),
        ('"{\\"password\\": 12345678}"', '"{\\"password\\": \\"[password-1]\\"}"'),
        ("api_token: 9f8a7b6c5d4e", "api_token: [secret-1]"),
        ("apiKey = 'a1b2c3d4e5f6'", "apiKey = '[secret-1]'"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY=[secret-1]"),
        ("login --password s3cret-word now", "login --password [password-1] now"),
        ('["login","--token","abc123def456"]', '["login","--token","[secret-1]"]'),
        ("?access_token=abc123def456&x=1", "?access_token=[secret-1]&x=1"),
        ("token%3Dabc123def456%26x", "token%3D[secret-1]"),
        ("curl -u anna:s3cret-word https://x", "curl -u anna:[password-1] https://x"),
        ("Authorization: Bearer abc123def456ghi", "Authorization: Bearer [authorization-1]"),
        ('"authorization": "Basic dXNlcjpwYXNz"', '"authorization": "Basic [authorization-1]"'),
        ("postgres://anna:hunter2x@db.internal/app", "postgres://anna:[connection-password-1]@db.internal/app"),
        ("redis://:hunter2x@localhost:6379", "redis://:[connection-password-1]@localhost:6379"),
        ("/home/anna/x", "/home/[user-1]/x"),
        ("cd /Users/anna", "cd /Users/[user-1]"),
        ("C:\\Users\\anna\\x", "C:\\Users\\[user-1]\\x"),
        ('"C:\\\\Users\\\\anna\\\\x"', '"C:\\\\Users\\\\[user-1]\\\\x"'),
        ("file:///home/anna/x", "file:///home/[user-1]/x"),
        ("%2Fhome%2Fanna%2Fx", "%2Fhome%2F[user-1]%2Fx"),
        (".claude/projects/-home-anna-app/x", ".claude/projects/-home-[user-1]-app/x"),
    ],
)
def test_what_a_name_or_its_place_tells_is_masked(text: str, masked: str) -> None:
    assert NumberedRedactor().text(text) == masked


@every(
    "text",
    [
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "id 7f2c6826-7376-4f1b-9fe1-fb5f083dec4c",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
        '"integrity": "sha512-kVl1AiJBqUE8Sx5qPjYQq0sVl0gXv7mPqWZJ7tVvYqz3Cw4hYqCq1Y1oQ2sXbqVbZJ5u8m7Yk1cTtq0F1y3Q=="',
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "max_tokens: 4096, input_tokens=123456",
        "token: string; password: str | None",
        "password = os.environ['PASSWORD']",
        "token = get_token(user)",
        "const secret = config.auth.secret",
        "password=$PASSWORD token=${TOKEN} secret=<your-secret>",
        '{"password": "********", "token": "xxxxxxxx", "secret": null}',
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "tokens like ghp_ and sk-ant- begin so; the disk-0123456789abcdef0123456789abcdef01 is none",
        "next_page_token=abc123def456",
        "https://example.com/home/anna and /api/Users/x are pages: https://a.b/Users/y",
        "/home/user/x /Users/Shared/y ~/z",
        "https://user:password@example.com http://localhost:8080/@scope/name",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "docker run -u 1000:1000 image; sort -u a:b",
        "01KZ98Z747WR8XJ4N7C5Q2T3V6 BASE32 AKIA",
        'PWD="/srv/app/build"',
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    redactor = NumberedRedactor()
    assert redactor.text(text) == text
    assert redactor.counts == {}


KEY_LINES = "\n".join(letters(64, string.ascii_letters + string.digits + "+/", seed=n) for n in range(5))
KEY = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{KEY_LINES}\nQw==\n-----END OPENSSH PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        KEY.replace("\n", "\\n"),
        "\n".join(f"{n:6}→{line}" for n, line in enumerate(KEY.split("\n"), 1)),
        "\n".join(f"+{line}" for line in KEY.split("\n")),
        '"' + '\\n" +\n"'.join(KEY.split("\n")) + '"',
        KEY[: KEY.index("-----END")],
    ],
    ids=["as it is", "escaped", "numbered", "in a patch", "in a program", "cut"],
)
def test_a_private_key_is_masked_however_it_is_printed(text: str) -> None:
    masked = NumberedRedactor().text(text)
    assert not any(line in masked for line in KEY_LINES.split("\n"))


def test_the_last_lines_of_a_known_key_are_masked() -> None:
    redactor = NumberedRedactor()
    redactor.learn(KEY)
    assert redactor.counts == {}
    assert redactor.text("\n".join(KEY_LINES.split("\n")[3:])) == "[private-key-1]\n[private-key-1]"


def test_the_same_secret_has_the_same_mask_and_another_one_another() -> None:
    redactor = NumberedRedactor()
    first, second = "ghp_" + letters(36), "ghp_" + letters(36, seed=9)
    assert redactor.text(f"{first} {second} {first}") == "[github-token-1] [github-token-2] [github-token-1]"
    assert redactor.text(f"token={second}") == "token=[github-token-2]"


def test_a_secret_that_a_name_told_is_masked_without_the_name() -> None:
    redactor = NumberedRedactor()
    redactor.learn({"password": 'p@ss"w0rd/x'})
    for written in ('p@ss"w0rd/x', 'p@ss\\"w0rd/x', quote('p@ss"w0rd/x', safe="")):
        assert redactor.text(f"in /tmp/{written}.txt") == "in /tmp/[password-1].txt", written


def test_in_one_text_a_secret_is_masked_before_its_name_comes_too() -> None:
    assert NumberedRedactor().text("use hunter22 as password=hunter22") == "use [password-1] as password=[password-1]"


def test_of_a_known_secret_the_beginning_is_masked_where_a_title_cuts_it() -> None:
    redactor, secret = NumberedRedactor(), TOKENS["anthropic-key"]
    redactor.learn(secret)
    assert redactor.text(f"Use {secret[:30]}…") == "Use [anthropic-key-1]…"


def test_the_person_s_own_home_folder_is_masked_wherever_it_is() -> None:
    assert NumberedRedactor("/data/people/anna").text("in /data/people/anna/app") == "in [home-1]/app"
    assert NumberedRedactor("/home/anna").text("in /home/anna/app") == "in /home/[user-1]/app"


def test_values_are_masked_in_keys_lists_and_by_their_names() -> None:
    token = TOKENS["github-token"]
    call = ToolCall(
        tool_name="Bash", tool="SHELL", file_path=f"/tmp/{token}",
        input={
            "env": {"DB_PASSWORD": "correct-horse1", "PIN": 1234, "PASSWORD": 123456}, token: True,
            "argv": ["login", "--password", "hunter22"],
            "settings": [{"name": "API_TOKEN", "value": "abc123def456"}],
            "nested": json.dumps({"client_secret": "zyx987wvu654"}),
        },
    )  # fmt: skip
    redactor = NumberedRedactor()
    masked = redactor.value(call)
    assert masked.file_path == "/tmp/[github-token-1]"
    assert masked.input == {
        "env": {"DB_PASSWORD": "[password-1]", "PIN": 1234, "PASSWORD": "[password-2]"}, "[github-token-1]": True,
        "argv": ["login", "--password", "[password-3]"],
        "settings": [{"name": "API_TOKEN", "value": "[secret-1]"}],
        "nested": '{"client_secret": "[secret-2]"}',
    }  # fmt: skip
    event_to_json(masked)


def test_bytes_that_stand_in_json_as_base64_are_masked() -> None:
    import base64

    data = base64.b64encode(b"\xff key " + TOKENS["github-token"].encode()).decode()
    masked = NumberedRedactor().value({"content": {"text_base64": data}})
    assert base64.b64decode(masked["content"]["text_base64"]) == b"\xff key [github-token-1]"


def test_a_value_that_is_nested_without_end_is_masked_all_the_same() -> None:
    value: object = TOKENS["github-token"]
    for _ in range(400):
        value = [value]
    assert TOKENS["github-token"] not in json.dumps(NumberedRedactor().value(value))


PIECES = st.sampled_from(
    [*TOKENS.values(), KEY, "password=", "hunter22", "/home/anna/", "://u:p4ssword@h", "[github-token-1]",
     "[password-1]", "Authorization: Bearer ", '"', "'", "\\", "\n", "\\n", " ", "=", ":", "token", "x1", "é",
     "%3D", "{", "}"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@pytest.mark.hypothesis
@given(TEXTS)
def test_what_is_masked_stays_as_it_is_and_does_not_grow(text: str) -> None:
    redactor = NumberedRedactor()
    masked = redactor.text(text)
    assert redactor.text(masked) == masked
    assert len(masked) <= 5 * len(text)


@pytest.mark.slow
@pytest.mark.hypothesis
@given(st.recursive(TEXTS | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_json_stays_json(value: object) -> None:
    text = json.dumps(value)
    json.loads(NumberedRedactor().text(text))
    json.loads(NumberedRedactor().json(json.dumps({"a": value})))
    json.loads(NumberedRedactor().text(json.dumps(text)))


def test_an_escape_behind_a_secret_is_not_cut() -> None:
    text = json.dumps('password="hunter22\\')
    assert json.loads(NumberedRedactor().text(text)) == 'password="[password-1]\\'


def test_a_secret_that_ends_in_a_backslash_cuts_no_escape_elsewhere() -> None:
    key = "AKIAIOSFODNN7ABCDEFG"
    text = json.dumps({f'{key}"token': f"{key}\\"})
    assert key not in json.dumps(json.loads(NumberedRedactor().text(text)))


def test_a_text_without_secrets_is_read_fast() -> None:
    line = (
        '{"type":"assistant","usage":{"input_tokens":12,"cache":34},"text":"we look at the file and change a line"}\n'
    )
    text = line * 20_000
    redactor = NumberedRedactor()
    redactor.text(line)
    most = len(text) / 5e6  # 5 MB/s
    assert least_cpu_seconds(lambda: redactor.text(text), most) < most


@every(
    "made",
    [
        lambda size: TOKENS["github-token"] + " " * size,
        lambda size: TOKENS["github-token"] + " \t" * (size // 2) + "|",
        lambda size: "authorization:" + " " * size + "!",
        lambda size: "authorization: basic" + " " * size,
        lambda size: "authorization=" * (size // 14),
        lambda size: "bearer " * (size // 7),
        lambda size: 'pwd="' + '\\"' * (size // 2),
        lambda size: "password" + "\\" * size,
        lambda size: "-----BEGIN PRIVATE KEY-----" + "+ " * (size // 2),
        lambda size: "://a:" * (size // 5),
    ],
    ids=["spaces", "tabs", "header", "basic", "chain", "bearer", "quotes", "backslashes", "key", "logins"],
)
def test_no_text_is_read_again_from_each_of_its_places(made: Callable[[int], str]) -> None:
    text = made(100_000)
    # Read again from each place, this takes some minutes.
    assert least_cpu_seconds(lambda: NumberedRedactor().text(text), 2) < 2


def test_a_header_in_another_one_s_value_is_masked_with_it() -> None:
    text = "authorization=authorization=Zx81kQw7Lm2p"
    redactor = NumberedRedactor()
    assert "Zx81" not in redactor.text(text)
    assert redactor.text(redactor.text(text)) == redactor.text(text)


@pytest.mark.parametrize("secret", ["github-token-of-7391", "authorization-7391", "password-7391x"])
def test_a_secret_that_begins_like_a_mask_is_masked_and_no_mask_within_another(secret: str) -> None:
    redactor = NumberedRedactor()
    token = TOKENS["github-token"]
    text = f"{token} password={secret} and {secret}, {token}"
    masked = "[github-token-1] password=[password-1] and [password-1], [github-token-1]"
    assert [redactor.text(text), redactor.text(masked), redactor.text(text)] == [masked] * 3


def test_a_secret_in_brackets_of_its_own_is_masked() -> None:
    redactor = NumberedRedactor()
    redactor.learn("password=correct-horse-1")
    assert redactor.text("[correct-horse-1]") == "[[password-1]]"


def test_very_many_known_secrets_are_not_looked_through_for_each_text() -> None:
    class Heads(dict[str, set[int]]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("all of them were looked at")

    known = KnownSecrets()
    for number in range(HEADS_SOUGHT_MAX + 1):
        secret = f"s{number:05}-and-the-rest-of-it"
        known.add(secret, FoundSecret("token", 0, len(secret), secret))
    known._lengths = Heads(known._lengths)
    assert [at for at, *_ in known.places_in("a s00007-and-the-rest-of-it")] == [2]
    assert list(known.places_in("nothing here")) == []


def test_a_text_without_a_secret_is_looked_at_once_also_where_some_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor, looked = NumberedRedactor(), list[str]()
    redactor.learn("password=correct-horse-1")
    found = KnownSecrets.places_in

    def places_in(known: KnownSecrets, text: str) -> Iterator[tuple[int, int, str, FoundSecret]]:
        looked.append(text)
        return found(known, text)

    monkeypatch.setattr(KnownSecrets, "places_in", places_in)
    call = ToolCall(tool_name="run_shell", file_path="/src/tool.py", input={"command": "make all"})
    assert [redactor.value(call) for _ in range(3)] == [call] * 3
    assert sorted(looked) == ["/src/tool.py", "command", "make all", "run_shell"]


def test_a_text_is_looked_at_again_once_a_secret_is_known_that_it_has() -> None:
    redactor = NumberedRedactor()
    redactor.learn("password=correct-horse-1")
    assert redactor.text("say open-sesame-22 here") == "say open-sesame-22 here"
    redactor.learn("password=open-sesame-22")
    assert redactor.text("say open-sesame-22 here") == "say [password-2] here"


def test_a_word_shorter_than_every_token_holds_none() -> None:
    assert min(len(begun) + each.least for each in tokens() for begun in each.beginnings) >= TOKEN_CHARS_MIN
    assert (
        NumberedRedactor().text("of root:abcd1@tcp(db) here it is")
        == "of root:[connection-password-1]@tcp(db) here it is"
    )
    assert SHORT_FORM in {sign for _, sign, _, _ in FORMS}
    # A single word of letters and digits is looked at only where it begins.
    assert not [sign for _, sign, before, _ in FORMS if before != (0,) and sign.isalnum()]


def test_masking_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[int]()
    monkeypatch.setattr("backstory.derive.secrets.STRUCTS_AT_ONCE", 2)
    redactor, calls = NumberedRedactor(report=told.append), Packed([ToolCall(tool_name="run_shell")] * 3)
    assert redactor.value(calls) is calls
    redactor.learn(calls)
    assert told == [2, 4, 6]


def test_with_one_key_a_secret_has_the_same_digits_and_without_it_others() -> None:
    secret = TOKENS["github-token"]

    def masked(text: str, key: bytes | None) -> str:
        redactor = Redactor() if key is None else Redactor(key=lambda: key)
        return str(re.findall(r"\[[a-z-]+-([0-9]{10})\]", redactor.text(text))[-1])

    known = {masked(f"{first} token={secret}", b"k" * 32) for first in ("", TOKENS["npm-token"], TOKENS["jwt"])}
    assert len(known) == 1
    assert known.isdisjoint(masked(f"token={secret}", key) for key in (b"l" * 32, None, None))


def test_a_key_is_asked_for_only_where_something_is_masked() -> None:
    asked = list[bytes]()

    def key() -> bytes:
        asked.append(b"k" * 32)
        return asked[-1]

    redactor = Redactor(key=key)
    redactor.text("nothing to mask in this")
    assert asked == []
    redactor.text(f"{TOKENS['github-token']} and {TOKENS['npm-token']}")
    assert len(asked) == 1


def test_a_person_s_name_has_other_digits_than_a_secret_that_is_the_same_word() -> None:
    redactor = Redactor(key=lambda: b"k" * 32)
    user, password = re.findall(r"-([0-9]{10})\]", redactor.text("/home/hunter22/x password=hunter22"))
    assert user != password


@pytest.mark.hypothesis
@given(st.lists(st.sampled_from([*TOKENS.values(), "password=hunter22!", "/home/anna/x", "words"])), st.data())
def test_two_halves_give_a_secret_the_digits_that_the_whole_gives_it(texts: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(texts)))

    def masked(part: list[str]) -> list[str]:
        redactor = Redactor(key=lambda: b"k" * 32)
        return [redactor.text(each) for each in part]

    assert masked(texts[:cut]) + masked(texts[cut:]) == masked(texts)


NAMED: dict[str, Callable[[str, str], Any]] = {
    "under its name": lambda name, value: {name: value},
    "beside its name": lambda name, value: {"env": [{"name": name, "value": value}]},
    "behind its option": lambda name, value: ["login", f"--{name}", value],
}


@every("shape", NAMED)
@every("depth", [1, 2, 3, 4])
@every("value", ["hunter2fortytwo", "abcdefgh", 's3cr3t"of\\7391', "begins-7391\\", '"quoted"-7391'])
def test_json_in_json_is_masked_as_it_is_by_itself(shape: str, depth: int, value: str) -> None:
    plain = NAMED[shape]("db_password", value)
    nested: Any = plain
    for _ in range(depth):
        nested = {"arguments": json.dumps(nested)}
    masked = NumberedRedactor().value(nested)
    for _ in range(depth):
        masked = json.loads(masked["arguments"])
    # In JSON a secret with quotes is written otherwise, and its digits may be those of how it is written.
    by_itself = json.dumps(NumberedRedactor().value(plain))
    assert re.sub(r"-\d+\]", "]", json.dumps(masked)) == by_itself.replace("-1]", "]") != json.dumps(plain)


@pytest.mark.parametrize("indent", [None, 2])
def test_json_in_json_is_written_as_it_was(indent: int | None) -> None:
    def written(value: str) -> str:
        return json.dumps({"a": [1.5, {"name": "TOKEN", "value": value}], "b": "é"}, indent=indent, ensure_ascii=False)

    assert NumberedRedactor().text(written("hunter2fortytwo")) == written("[secret-1]")


NESTED = json.dumps({"name": "db_password", "value": "abcdefgh"})


def test_json_in_json_that_is_long_is_masked_each_time() -> None:
    redactor = NumberedRedactor()
    text = json.dumps({"words": "word " * 1_000, "arguments": NESTED})
    redactor.foresee([text])
    first = redactor.text(text)
    assert "abcdefgh" not in first
    assert redactor.text(text) == first
    assert redactor.counts == {"password": 2}


def test_what_json_in_json_tells_is_masked_before_it_too() -> None:
    text = json.dumps(["it is 7391hunter2", json.dumps([{"name": "TOKEN", "value": "7391hunter2"}])])
    assert "7391hunter2" not in NumberedRedactor().text(text)


def test_a_line_that_is_not_utf_8_is_masked_too() -> None:
    masked = NumberedRedactor().bytes(b'{"password": "hunter2x", "path": "caf\xe9"}\n')
    assert masked == b'{"password": "[password-1]", "path": "caf\xe9"}\n'


PARTS = st.sampled_from(["ab", "ba", "aba", " ", "\n", "\u3000", "c", "-", "word", "abcabc"])
WORDS = st.lists(PARTS, min_size=3, max_size=12).map("".join)


@pytest.mark.hypothesis
@given(st.lists(st.tuples(WORDS.filter(lambda word: len(word) >= 6), st.lists(WORDS, max_size=4)), max_size=5))
def test_very_many_known_secrets_are_found_where_a_few_are(steps: list[tuple[str, list[str]]]) -> None:
    few, many = KnownSecrets(), KnownSecrets()
    for number in range(HEADS_SOUGHT_MAX + 1):
        many.add(f"{number:06}-of-others", FoundSecret("secret", 0, 0, str(number)))
    for secret, texts in steps:
        for known in (few, many):
            known.add(secret, FoundSecret("secret", 0, 0, secret))
        for text in texts:
            assert list(many.places_in(text)) == list(few.places_in(text))

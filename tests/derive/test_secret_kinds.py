"""How many secrets are found of kinds that issuers publish, and what is masked of ordinary text."""

from __future__ import annotations

import random
import re
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.clock import least_cpu_seconds
from tests.support.every import every
from tests.support.masks import NumberedRedactor
from tests.support.planted import COLOURED, CONTEXTS, KINDS, SETS, made, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent.parent


def letters(count: int, seed: int = 7) -> str:
    return "".join(random.Random(seed).choices(SETS["b"], k=count))


def share_masked(contexts: list[Callable[[str], str]]) -> float:
    masked = list[bool]()
    for form in KINDS.values():
        for seed, context in enumerate(contexts):
            text, secret = made(form, seed)
            shown = NumberedRedactor().json(context(text)).replace("\n", "")
            masked.append(secret not in shown and secret[2:14] not in shown)
    return sum(masked) / len(masked)


def test_nine_of_ten_secrets_are_masked_wherever_agents_read_them() -> None:
    assert share_masked(list(CONTEXTS.values())) >= 0.9


@pytest.mark.parametrize("context", [COLOURED, wrapped], ids=["coloured", "wrapped at 80 columns"])
def test_colours_and_narrow_terminals_hide_few_secrets(context: Callable[[str], str]) -> None:
    assert share_masked([context] * 3) >= 0.85


@pytest.mark.parametrize(
    "text",
    [
        "PGPASSWORD={}", "DB_PASS={}", "MY_PW={}", "GITHUB_TOKEN={}", "STRIPE_KEY={}", "AWS_CREDENTIAL={}",
        "NPM_AUTH={}", "SENTRY_DSN={}", "password={}", "passwd={}", "pwd={}", "secret={}",
        "docker run -e POSTGRES_PASSWORD={} image",
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ["hunter", "abc&def$gh!ij", "correct-horse", "letmein1"])
def test_every_value_under_a_secrets_name_is_masked_whole(text: str, value: str) -> None:
    shown = NumberedRedactor().text(text.format(value))
    assert re.fullmatch(re.escape(text).replace(r"\{\}", r"\[(?:password|secret)-1\]"), shown), shown


@pytest.mark.parametrize("quote", ['"', "'"])
def test_words_in_quotes_behind_a_variable_are_its_value(quote: str) -> None:
    assert (
        NumberedRedactor().text(f"DB_PASSWORD={quote}two words{quote} run")
        == f"DB_PASSWORD={quote}[password-1]{quote} run"
    )
    between = 'key = "API_KEY=" + other, "rest"'
    assert NumberedRedactor().text(between) == between


@every(
    "text",
    [
        "NODE_ENV=production", "LANG=en_US.UTF-8", "KEYMAP=us-intl", "TOKENIZERS_PARALLELISM=false",
        "MAX_TOKENS=100000", "GIT_AUTHOR_NAME=Jane", "PASSED=123456",
        "idempotency_key=3f2b8c1e-9a4d-4c7b-8e21-0f5d6a7b8c9d", "PASSWORD=$DB_PASSWORD", "PASSWORD=${DB_PASSWORD}",
        "SECRET_KEY=/run/secrets/key", "API_KEY=<your key>", "TOKEN=xxxxxx", "DB_PASSWORD=$(cat /x)",
        "KEYBOARD=qwerty1", "MONKEY=banana1", "PASSENGER=abcdef", "password=changeme", "connect(password=password)",
        "secret=os.environ['X']", "url?password=abc&user=x", "export ANTHROPIC_API_KEY=sk-ant-...\npi",
    ],
)  # fmt: skip
def test_a_variable_a_path_a_placeholder_and_another_name_stay(text: str) -> None:
    assert NumberedRedactor().text(text) == text


def test_the_end_of_a_key_is_masked_without_its_beginning() -> None:
    above = "\n".join((letters(64), letters(64, seed=8), "Zm9v"))
    masked = NumberedRedactor().text(f"done\n{above}\n-----END OPENSSH PRIVATE KEY-----\n$ ls")
    assert masked == "done\n[private-key-1]\n[private-key-2]\n[private-key-3]\n-----END OPENSSH PRIVATE KEY-----\n$ ls"
    prose = "so it ends here\n-----END PRIVATE KEY-----"
    assert NumberedRedactor().text(prose) == prose


def ordinary() -> Iterator[str]:
    """Code and prose: the beginnings of modules of the standard library, and our own pages."""
    library = Path(sysconfig.get_path("stdlib"))
    for name in (
        "argparse",
        "ast",
        "csv",
        "difflib",
        "tarfile",
        "typing",
        "zipfile",
        "logging/__init__",
        "json/decoder",
    ):
        yield "".join((library / f"{name}.py").read_text("utf-8").splitlines(keepends=True)[:200])
    for name in ("README.md", "ARCHITECTURE.md", "docs/sql.md"):
        yield (ROOT / name).read_text("utf-8")


def test_ordinary_code_and_prose_stay_byte_for_byte() -> None:
    texts = list(ordinary())
    assert sum(text.count("\n") for text in texts) > 2_000
    assert [NumberedRedactor(people=False).text(text) for text in texts] == texts


@pytest.mark.parametrize(
    "text",
    [
        "password=" * 11_000, "://a:" * 20_000, "authorization: " * 7_000, "-----BEGIN PRIVATE KEY-----\n" * 3_500,
        "sk-" * 33_000, "AKIA\n" * 20_000, 'token="' + '\\"' * 50_000, "bearer " + "a" * 100_000, "A_KEY=" * 16_000,
        "=" * 100_000, "A" * 100_000, ("a" * 20 + "\n") * 4_000 + "-----END PRIVATE KEY-----",
        "-----END PRIVATE KEY-----\n" * 4_000,
        "@" * 100_000, "eyJ" * 33_000, "\x1b[0m" * 25_000, ("a" * 80 + "\n") * 1_200, "KEY_" * 25_000,
        "cookie: a=" * 10_000, "login x password " * 6_000, "mysql -p " * 11_000, "$2$" * 33_000,
        " ".join(f"password=x{number}yz" for number in range(6_000)),
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_a_megabyte_of_any_text_takes_a_second(text: str) -> None:
    NumberedRedactor().text(text[:200])
    most = 2 * len(text) / 1e6
    assert least_cpu_seconds(lambda: NumberedRedactor().text(text), most) < most

"""How many secrets are found of kinds that issuers publish, and what is masked of ordinary text."""

from __future__ import annotations

import json
import random
import re
import string
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.clock import least_cpu_seconds
from tests.support.every import every
from tests.support.masks import NumberedRedactor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent.parent
SETS = {
    "w": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "C": string.ascii_uppercase + string.digits,
    "d": string.digits,
    "l": string.ascii_lowercase + string.digits,
    "b": string.ascii_letters + string.digits + "+/",
    "-": string.ascii_letters + string.digits + "_-",
}
"""The letters that a form writes as ``{w36}``: 36 letters or digits."""
KINDS = {
    "Alibaba": "LTAI{w20}", "Clojars": "CLOJARS_{l60}", "Contentful": "CFPAT-{-42}Z", "Duffel": "duffel_live_{-42}Z",
    "Dynatrace": "dt0c01.{C24}.{C64}", "EasyPost": "EZAK{w54}", "Flutterwave": "FLWSECK_TEST-{h32}-X",
    "Frame.io": "fio-u-{-63}Z", "Infracost": "ico-{w32}", "Intra42": "s-s4t2ud-{h64}", "Prefect": "pnu_{l36}",
    "ReadMe": "rdme_{l70}", "Scalingo": "tk-us-{-47}Z", "Brevo": "xkeysib-{h64}-{l16}", "Shippo": "shippo_live_{h40}",
    "Typeform": "tfp_{w40}", "Yandex": "AQVN{-37}Z", "1Password": "A3-{C6}-{C11}-{C5}-{C5}-{C5}",
    "Cloudflare": "v1.0-{h24}-{h146}", "MaxMind": "{w6}_{w29}_mmk", "Octopus": "API-{C26}",
    "OpenShift": "sha256~{-42}Z", "Harness": "pat.{-22}.{h24}.{w20}",
    "Plaid": "access-production-{h8}-{h4}-{h4}-{h4}-{h12}", "Lob": "live_{h35}", "NuGet": "oy2{l43}",
    "Buildkite": "bkua_{h40}", "Sourcegraph": "sgp_{h40}", "Settlemint": "sm_aat_{w16}",
    "Mapbox": "sk.eyJ{-60}.{-21}Z", "NVIDIA": "nvapi-{-63}Z", "CircleCI": "CCIPAT_{w22}_{h40}",
    "Honeycomb": "hcaik_{l58}", "Razorpay": "rzp_live_{w14}", "Dropbox": "sl.{-134}Z",
    "Postgres": "postgres://app:{w16}@db.internal/x", "cookie": "Cookie: sid={w32}; theme=dark",
    "netrc": "machine h login me password {w16}", "signature": "https://x.example.org/f?se=2026&sig={w40}%3D",
    "variable": "ACME_BILLING_PASS={w14}", "XML": "<password>{w16}</password>",
    "registry": '{"auths":{"r.io":{"auth":"bWU6{w20}"}}}',
}  # fmt: skip
CONTEXTS: dict[str, Callable[[str], str]] = {
    "in a sentence": lambda text: f"here it is: {text} ok",
    "in JSON": lambda text: json.dumps({"a": text}),
    "in JSON inside JSON": lambda text: json.dumps({"x": json.dumps({"a": text})}),
    "added in a diff": lambda text: f"@@ -1 +1 @@\n+{text}",
    "behind a line's number": lambda text: f"     1\t{text}",
    "in a shell's history": lambda text: f"  501  echo '{text}' | tool",
    "in Markdown": lambda text: f"use `{text}` now",
}
COLOURED: Callable[[str], str] = lambda text: f"\x1b[31m{text}\x1b[0m"  # noqa: E731


def letters(count: int, seed: int = 7) -> str:
    return "".join(random.Random(seed).choices(SETS["b"], k=count))


def wrapped(text: str) -> str:
    whole = "x" * 60 + " " + text
    return "\n".join(whole[at : at + 80] for at in range(0, len(whole), 80))


def made(form: str, seed: int) -> tuple[str, str]:
    """A text of a form, and the letters of it that are secret."""
    chance, secrets = random.Random(f"{form}{seed}"), list[str]()

    def letters(found: re.Match[str]) -> str:
        while not any(map(str.isdigit, some := "".join(chance.choices(SETS[found[1]], k=int(found[2]))))):
            pass
        secrets.append(some)
        return some

    return re.sub(r"\{([-\w])(\d+)\}", letters, form), max(secrets, key=len)


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
        "secret=os.environ['X']", "url?password=abc&user=x",
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

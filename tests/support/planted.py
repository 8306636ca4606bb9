"""Secrets of many kinds, made by their forms, and contexts in which agents read them."""

from __future__ import annotations

import json
import random
import re
import string
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

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


KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\n-----END PRIVATE KEY-----"
PIECES = st.sampled_from(
    [*(made(form, 1)[0] for form in KINDS.values()), KEY, "password=", "hunter22", "/home/anna/", "://u:p4ssword@h",
     "Authorization: Bearer ", "-u me:", "DB_PASS", "x" * 80, '"', "'", "\\", "\n", "\\n", " ", "=", ":", "token", "x1",
     "é", "%3D", "{", "}"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=12).map("".join)

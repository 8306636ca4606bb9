"""Secrets that their own form tells, as data: beginnings that one issuer uses, and forms. Pure.

The facts are those that issuers document and that public secret scanners look for. A line of ``BEGINNINGS`` is a kind,
the letters behind a beginning, how many of them at least and at most, and the beginnings. Earlier lines come first.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    import re

LETTERS = {
    "letters": lazy_regex("[A-Za-z0-9]+"),
    "hex": lazy_regex("[A-Fa-f0-9]+"),
    "capitals": lazy_regex("[A-Z0-9]+"),
    "name": lazy_regex("[A-Za-z0-9_]+"),
    "dashed": lazy_regex("[A-Za-z0-9_-]+"),
    "dotted": lazy_regex("[A-Za-z0-9_.-]+"),
    "money": lazy_regex("[A-Za-z0-9$]+"),
    "path": lazy_regex("[A-Za-z0-9/_-]+"),
    "base64": lazy_regex("[A-Za-z0-9+/=_-]+"),
}
BEGINNINGS = """
anthropic-key dashed 24 200 sk-ant-
openai-key dashed 32 250 sk-proj- sk-svcacct- sk-admin- sk-or-v1- sk-None-
langfuse-key dashed 30 60 sk-lf-
openai-key letters 32 64 sk-
github-token letters 36 255 ghp_ gho_ ghu_ ghs_ ghr_
github-token name 36 255 github_pat_
gitlab-token dotted 20 320 glpat- glrt- gldt- glcbt- glptt- glft- glffct- glimt- glagent- gloas- glsoat- glwt- GR1348941
gitlab-session letters 32 64 _gitlab_session=
bitbucket-token base64 20 300 ATBB BBDC-
aws-access-key capitals 16 16 AKIA ASIA ABIA ACCA
aws-access-key capitals 17 17 A3T
aws-bedrock-key base64 100 400 ABSK bedrock-api-key-
amazon-token hex 64 64 amzn1.oa2-cs.v1.
amazon-token dashed 36 36 amzn.mws.
google-api-key dashed 35 35 AIza
google-api-key dashed 24 400 GOCSPX- ya29. 1//0
google-hmac-key capitals 57 57 GOOG1E
alibaba-key letters 20 20 LTAI
tencent-key letters 32 32 AKID
yandex-key dashed 35 38 AQVN
slack-token dashed 20 250 xoxb- xoxp- xoxa- xoxs- xoxr- xoxo- xoxe- xoxe. xoxc- xapp-
slack-token base64 20 400 xoxd- xoxd-%
slack-webhook path 30 100 hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/
webhook path 30 120 discord.com/api/webhooks/ discordapp.com/api/webhooks/
webhook path 10 60 hooks.zapier.com/hooks/catch/
stripe-key letters 10 250 sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_
stripe-key base64 16 250 whsec_
npm-token letters 36 36 npm_
pypi-token dashed 50 400 pypi-Ag
rubygems-key hex 48 48 rubygems_
crates-token letters 32 32 cio
clojars-token letters 60 60 CLOJARS_
nuget-key letters 43 43 oy2
docker-token dashed 20 60 dckr_pat_ dckr_oat_
huggingface-token letters 34 34 hf_
huggingface-token letters 34 34 api_org_
groq-key letters 40 80 gsk_
xai-key letters 60 120 xai-
perplexity-key letters 40 60 pplx-
replicate-token letters 37 37 r8_
nvidia-key dashed 40 90 nvapi-
cerebras-key letters 40 60 csk-
fireworks-key letters 20 40 fw_
together-key dashed 30 60 tgp_v1_
tavily-key dashed 20 60 tvly-
jina-key letters 40 80 jina_
pinecone-key name 40 100 pcsk_
e2b-key hex 40 40 e2b_
firecrawl-key hex 32 32 fc-
langsmith-key name 32 60 lsv2_pt_ lsv2_sk_ ls__
posthog-key letters 40 60 phx_ phc_
kaggle-token hex 32 32 KGAT_
vault-token dashed 24 400 hvs. hvb. hvr.
doppler-token letters 40 60 dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.
doppler-token dotted 40 80 dp.st.
1password-token base64 40 2000 ops_eyJ
pulumi-token hex 40 40 pul-
prefect-token letters 36 36 pnu_ pnb_
buildkite-token letters 38 60 bkua_ bkpt_ bkct_ bkaj_
circleci-token name 40 80 CCIPAT_ CCIPRJ_
tailscale-key dashed 20 80 tskey-
fly-token base64 40 4000 fo1_ fm1r_ fm1a_ fm2_
digitalocean-token hex 64 64 dop_v1_ doo_v1_ dor_v1_
heroku-key dashed 40 80 HRKU-
netlify-token letters 30 60 nfp_ nfc_ nfo_ nfu_ nfb_
vercel-token name 30 90 vercel_blob_rw_
supabase-key dashed 20 60 sbp_ sb_secret_ sb_publishable_
planetscale-token dotted 32 64 pscale_tkn_ pscale_pw_ pscale_oauth_
databricks-token hex 32 32 dapi
confluent-token base64 50 80 cflt
sentry-token base64 40 600 sntrys_ sntryu_
newrelic-key capitals 27 27 NRAK-
newrelic-key dashed 19 40 NRJS- NRII- NRRA-
grafana-token base64 32 400 glc_
grafana-token name 32 60 glsa_
grafana-token base64 60 400 eyJrIjoi
dynatrace-token dotted 40 120 dt0c01. dt0s01. dt0s16.
honeycomb-key letters 58 58 hcaik_ hcbik_
sonar-token hex 40 40 squ_ sqp_ sqa_
snyk-token dotted 40 400 snyk_uat.
sourcegraph-token name 40 70 sgp_
linear-key letters 32 60 lin_api_ lin_oauth_
notion-token letters 40 60 ntn_
figma-token dashed 36 60 figd_ figo_ figu_ figr_
atlassian-token base64 60 400 ATATT3 ATCTT3 ATSTT3
postman-key dashed 50 70 PMAK-
shopify-token hex 32 32 shpat_ shpca_ shppa_ shpss_ shptka_
square-token dashed 22 90 EAAA sq0atp- sq0csp- sq0idp-
facebook-token letters 90 400 EAAM EAAC EAAB EAAG
paypal-token money 40 60 access_token$production$ access_token$sandbox$
flutterwave-key dashed 12 60 FLWSECK_TEST- FLWSECK- FLWPUBK_TEST-
duffel-token base64 40 60 duffel_test_ duffel_live_
easypost-key letters 54 54 EZAK EZTK
shippo-token hex 40 40 shippo_live_ shippo_test_
razorpay-key letters 14 14 rzp_live_ rzp_test_
sendgrid-key dotted 60 80 SG.
brevo-key dashed 80 90 xkeysib- xsmtpsib-
mailersend-token hex 60 80 mlsn.
typeform-token dotted 40 90 tfp_
readme-key letters 70 70 rdme_
frameio-token base64 60 70 fio-u-
contentful-token dashed 43 43 CFPAT-
infracost-key letters 32 32 ico-
settlemint-token letters 16 40 sm_aat_ sm_pat_ sm_sat_
scalingo-token dashed 48 48 tk-us-
intra42-secret hex 64 64 s-s4t2ud- s-s4t2af-
adobe-secret letters 32 32 p8e-
octopus-key capitals 26 26 API-
openshift-token dashed 43 43 sha256~
clickhouse-key letters 38 38 4b1d
artifactory-key letters 69 69 AKCp
artifactory-key letters 59 59 cmVmd
cloudflare-key hex 37 60 cfk_ cfut_ cfat_
cloudflare-key dashed 171 171 v1.0-
dnkey dashed 60 100 dnkey-
apify-token letters 36 36 apify_api_
docker-swarm-token dashed 60 100 SWMTKN-1-
age-key capitals 58 58 AGE-SECRET-KEY-1
plaid-token dashed 36 36 access-sandbox- access-development- access-production-
jwt dotted 30 8000 eyJ
jwt base64 60 8000 ZXlK
"""
SURE = {
    "slack-token": lazy_regex(r".*[0-9].*"),
    "jwt": lazy_regex(r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*|ZXlKaG\w[\w+/=-]{50,}"),
    "crates-token": lazy_regex(r"(?=.*[0-9])(?=.*[A-Z]).*"),
    "confluent-token": lazy_regex(r".*[0-9].*[0-9].*[A-Z].*"),
    "facebook-token": lazy_regex(r".*[0-9].*"),
    "webhook": lazy_regex(r".*/[0-9]{6,}/.+"),
    "cloudflare-key": lazy_regex(r"cf.*|v1\.0-[0-9a-f]{24}-[0-9a-f]{146}"),
    "plaid-token": lazy_regex(r"access-[a-z]+-[0-9a-f]{8}-[0-9a-f-]{27}"),
    "sendgrid-key": lazy_regex(r"SG\.[\w-]{10,}\.[\w-]{20,}"),
}
"""The form that the whole of a kind has, where its letters are not enough."""

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_AUTHRESS = r"[a-z]{2,8}_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,120}"
FORMS = (
    ("discord-token", ".", None, r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![\w-])"),
    ("telegram-token", ":A", (10, 9, 8), r"[0-9]{8,10}:A[A-Za-z0-9_-]{34}(?![\w-])"),
    ("twilio-key", "SK", (0,), r"SK[0-9a-f]{32}(?!\w)"),
    ("mailgun-key", "key-", (0,), r"key-[0-9a-f]{32}(?!\w)"),
    ("mailchimp-key", "-us", (32,), r"[0-9a-f]{32}-us[0-9]{1,2}(?!\w)"),
    ("azure-secret", "Q~", (4,), r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![\w~])"),
    ("terraform-token", ".atlasv1.", (14,), r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}"),
    ("airtable-token", "pat", (0,), r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}(?!\w)"),
    ("harness-token", "at.", (1,), r"[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}(?!\w)"),
    ("notion-token", "secret_", (0,), r"secret_[A-Za-z0-9]{43}(?!\w)"),
    ("resend-key", "re_", (0,), r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,26}(?!\w)"),
    ("elevenlabs-key", "sk_", (0,), r"sk_[0-9a-f]{48}(?!\w)"),
    ("vault-token", "s.", (0,), r"s\.(?=[A-Za-z]*[0-9])(?=[a-z0-9]*[A-Z])(?=[A-Z0-9]*[a-z])[A-Za-z0-9]{24}(?![\w.(])"),
    ("lob-key", "live_", (0,), r"live_(?:pub_[0-9a-f]{31}|[0-9a-f]{35})(?!\w)"),
    ("lob-key", "test_", (0,), r"test_(?:pub_[0-9a-f]{31}|[0-9a-f]{35})(?!\w)"),
    ("facebook-token", "|", (16, 15), r"[0-9]{15,16}\|[A-Za-z0-9_-]{27}(?![\w-])"),
    ("maxmind-key", "_mmk", (36,), r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk(?!\w)"),
    ("1password-key", "A3-", (0,), r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}(?!\w)"),
    ("yandex-token", "t1.", (0,), r"t1\.[A-Za-z0-9_-]{1,200}={0,2}\.[A-Za-z0-9_-]{86}={0,2}"),
    ("mapbox-token", "k.eyJ", (1,), r"[pst]k\.eyJ[A-Za-z0-9_-]{40,200}\.[A-Za-z0-9_-]{20,40}"),
    ("dropbox-token", "sl.", (0,), r"sl\.[A-Za-z0-9_=.-]{130,300}"),
    ("authress-key", "sc_", (0,), _AUTHRESS), ("authress-key", "ext_", (0,), _AUTHRESS),
    ("authress-key", "scauth_", (0,), _AUTHRESS), ("authress-key", "authress_", (0,), _AUTHRESS),
    ("webhook", "@", (36,), rf"{_UUID}@[A-Za-z0-9-]{{8,36}}/IncomingWebhook/[A-Za-z0-9/-]{{16,120}}"),
    ("connection-password", "@tcp(", None, r""":(?!\[[a-z0-9-]{1,50}\]@)([^\s:@/"'\\]{4,200})@tcp\("""),
    ("password-hash", "$", (0,), r"\$[156]\$(?:rounds=[0-9]{1,9}\$)?[./A-Za-z0-9]{1,32}\$[./A-Za-z0-9]{22,86}"),
    ("password-hash", "$", (0,), r"\$(?:apr1|y|gy|7)\$[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9$]{16,90}"),
    ("password-hash", "$2", (0,), r"\$2[abxy]\$[0-9]{2}\$[./A-Za-z0-9]{53}"),
    ("password-hash", "$argon2", (0,), r"\$argon2(?:id|i|d)\$[A-Za-z0-9+/=,$]{30,200}"),
    ("password-hash", "pbkdf2_", (0,), r"pbkdf2_sha[0-9]{1,3}\$[0-9]{1,9}\$[A-Za-z0-9]{1,40}\$[A-Za-z0-9+/=]{20,100}"),
)  # fmt: skip
"""Kinds without a beginning of their own: letters that are in it, how many come before these, and the whole.

Where the letters before them vary (None) the whole text is searched.
"""


class FoundSecret(Struct, frozen=True):
    """A secret in a text: its kind, its place, and itself without line breaks."""

    name: str
    start: int
    end: int
    secret: str


class Token(Struct, frozen=True):
    """A kind with beginnings of its own, ``least`` to ``most`` letters of ``body`` behind them."""

    name: str
    beginnings: tuple[str, ...]
    body: re.Pattern[str]
    least: int
    most: int


@cache
def tokens() -> tuple[Token, ...]:
    """The kinds with a beginning; the first that finds something at a place names it."""
    rows = (line.split() for line in BEGINNINGS.strip().splitlines())
    return tuple(
        Token(name, tuple(beginnings), LETTERS[letters], int(least), int(most))
        for name, letters, least, most, *beginnings in rows
    )


@cache
def tokens_by_beginning() -> dict[str, list[tuple[str, Token]]]:
    """For each beginning the kinds that may begin with it or with its first letters, in order."""
    each = [(beginning, token) for token in tokens() for beginning in token.beginnings]
    return {whole: [(begun, token) for begun, token in each if whole.startswith(begun)] for whole, _ in each}


@cache
def any_beginning() -> re.Pattern[str]:
    """A pattern of all beginnings, by their letters one after another, so that a text is read once."""
    return beginnings_of()


@cache
def beginning_of_word() -> re.Pattern[str]:
    """A pattern of a beginning at the start of a text, or behind a sign that is no letter or digit."""
    import re

    words = sorted(tokens_by_beginning())
    firsts = "".join(sorted({re.escape(word[0]) for word in words}))
    return re.compile(f"(?:\\A|[^A-Za-z0-9])(?=[{firsts}])({_branches(words)})")


@cache
def beginning_behind_escape() -> re.Pattern[str]:
    """The same behind an escape that ends in a letter or digit."""
    import re

    escape = r"(?:\\(?:[nrtbf]|u[0-9A-Fa-f]{4})|%[0-9A-Fa-f]{2})"
    return re.compile(f"{escape}({_branches(sorted(tokens_by_beginning()))})")


def beginnings_of(*others: str) -> re.Pattern[str]:
    """The same with some others."""
    import re

    return re.compile(_branches(sorted({*tokens_by_beginning(), *others})))


@cache
def cut_beginning() -> re.Pattern[str]:
    """A pattern of every beginning that the end of a line cuts: the line's end, and the letters behind it."""
    import re

    begun: dict[str, list[str]] = {}
    for whole in tokens_by_beginning():
        for at in range(1, len(whole)):
            begun.setdefault(whole[at:], []).append(whole[:at])
    rests: dict[str, list[str]] = {}
    for rest in begun:
        before = "|".join(f"(?<={re.escape(each)}\n{re.escape(rest)})" for each in begun[rest])
        rests.setdefault(rest[0], []).append(f"{re.escape(rest[1:])}(?:{before})")
    firsts = "".join(map(re.escape, sorted(rests)))
    return re.compile(
        f"\n(?=[{firsts}])(?:"
        + "|".join(f"{re.escape(first)}(?:{'|'.join(each)})" for first, each in sorted(rests.items()))
        + ")"
    )


def _branches(words: list[str]) -> str:
    """A pattern of words: those that begin alike share their first letters, and a longer one comes first."""
    import re

    rests: dict[str, list[str]] = {}
    for word in words:
        rests.setdefault(word[:1], []).append(word[1:])
    can_end = bool(rests.pop("", None))
    branches = [re.escape(first) + _branches(rest) for first, rest in rests.items()]
    if not branches:
        return ""
    whole = branches[0] if len(branches) == 1 and not can_end else f"(?:{'|'.join(branches)})"
    return f"{whole}?" if can_end else whole


def bits(value: str) -> float:
    """The randomness of a text, in bits a letter."""
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)


def is_mixed(value: str) -> bool:
    """Tell a random text from words: it has letters and digits, or is long and varied."""
    has_digit, has_letter = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    return has_letter and (has_digit or (len(value) >= 20 and bits(value) >= 4))

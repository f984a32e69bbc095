"""Tokens that are recognised by their form alone: a vendor's prefix and what follows."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from hermetic.redaction.placeholders import is_example

_WORD, _URL, _HEX = "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[0-9a-f]"


class Token(NamedTuple):
    """One form: fixed texts, and the expressions after and before them within the token."""

    vendor: str
    keywords: tuple[str, ...]
    after: str
    before: str = ""
    most_before: int = 0  # characters that `before` can match


TOKENS: tuple[Token, ...] = (
    Token("GitHub", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), f"{_WORD}{{36,255}}"),
    Token("GitHub", ("github_pat_",), r"\w{40,255}"),
    Token(
        "GitLab",
        ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glft-", "glsoat-", "gloas-"),
        r"[\w.-]{20,255}",
    ),
    Token("Anthropic", ("sk-ant-",), f"{_URL}{{24,255}}"),
    Token("OpenAI", ("sk-proj-", "sk-svcacct-", "sk-admin-"), f"{_URL}{{24,255}}"),
    Token("OpenRouter", ("sk-or-v1-",), f"{_HEX}{{64}}"),
    Token("sk-", ("sk-",), f"{_WORD}{{32,64}}"),
    Token("sk-lf-", ("sk-lf-", "pk-lf-"), r"[0-9a-f-]{36}"),
    Token("AWS", ("AKIA", "ASIA", "ABIA", "ACCA"), "[A-Z2-7]{16}"),
    Token("Google", ("AIza",), f"{_URL}{{35}}"),
    Token("Google", ("ya29.",), r"[\w.-]{30,1000}"),
    Token("Google", ("GOCSPX-",), f"{_URL}{{28}}"),
    Token("Google", ("1//0",), f"{_URL}{{40,200}}"),
    Token("Azure", ("8Q~",), r"[\w~.-]{31,34}", r"[\w~.-]{3}", 3),
    Token(
        "Slack",
        ("xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxo-", "xoxe."),
        r"[\w.-]{20,255}",
    ),
    Token("Slack", ("xapp-",), r"\d-[\w-]{20,255}"),
    Token("Slack", ("hooks.slack.com/services/",), r"[\w/]{30,80}"),
    Token(
        "Discord",
        ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"),
        r"\d{17,20}/[\w-]{60,70}",
    ),
    Token("Telegram", (":AA",), f"{_URL}{{33}}", r"\d{8,10}", 10),
    Token("Stripe", ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), f"{_WORD}{{16,255}}"),
    Token("Stripe", ("whsec_",), r"[A-Za-z0-9+/=]{32,64}"),
    Token("Square", ("sq0atp-", "sq0csp-"), f"{_URL}{{22,43}}"),
    Token("Shopify", ("shpat_", "shpca_", "shppa_", "shpss_"), "[0-9a-fA-F]{32}"),
    Token("Twilio", ("SK",), f"{_HEX}{{32}}"),
    Token("SendGrid", ("SG.",), r"[\w-]{22}\.[\w-]{43}"),
    Token("Mailgun", ("key-",), f"{_HEX}{{32}}"),
    Token("Mailchimp", ("-us",), r"\d{1,2}", f"{_HEX}{{32}}", 32),
    Token("Resend", ("re_",), r"[A-Za-z0-9]{8}_[A-Za-z0-9]{24}"),
    Token("npm", ("npm_",), f"{_WORD}{{36}}"),
    Token("PyPI", ("pypi-AgE",), f"{_URL}{{50,400}}"),
    Token("RubyGems", ("rubygems_",), f"{_HEX}{{48}}"),
    Token("crates", ("cio",), f"{_WORD}{{32}}"),
    Token("NuGet", ("oy2",), "[a-z0-9]{43}"),
    Token("Docker", ("dckr_pat_", "dckr_oat_"), f"{_URL}{{27,80}}"),
    Token("Hugging Face", ("hf_",), "[A-Za-z]{30,40}|[A-Za-z0-9]{34,40}"),
    Token("Replicate", ("r8_",), f"{_WORD}{{37}}"),
    Token("Groq", ("gsk_",), f"{_WORD}{{48,60}}"),
    Token("xAI", ("xai-",), f"{_WORD}{{60,90}}"),
    Token("Perplexity", ("pplx-",), f"{_WORD}{{40,64}}"),
    Token("NVIDIA", ("nvapi-",), f"{_URL}{{60,80}}"),
    Token("Cerebras", ("csk-",), "[a-z0-9]{40,60}"),
    Token("Fireworks", ("fw_",), f"{_WORD}{{22,30}}"),
    Token("Pinecone", ("pcsk_",), r"\w{40,90}"),
    Token("ElevenLabs", ("sk_",), f"{_HEX}{{48}}"),
    Token("Tavily", ("tvly-",), f"{_URL}{{28,60}}"),
    Token("Firecrawl", ("fc-",), f"{_HEX}{{32}}"),
    Token("LangSmith", ("lsv2_pt_", "lsv2_sk_"), "[0-9a-f]{32}_[0-9a-f]{10}"),
    Token("E2B", ("e2b_",), f"{_HEX}{{40}}"),
    Token("Daytona", ("dtn_",), f"{_HEX}{{60,70}}"),
    Token("Modal", ("ak-", "as-"), f"(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z]){_WORD}{{22}}"),
    Token("DigitalOcean", ("dop_v1_", "doo_v1_", "dor_v1_"), f"{_HEX}{{64}}"),
    Token("Heroku", ("HRKU-",), f"{_URL}{{36,70}}"),
    Token("Fly", ("fm1_", "fm2_"), r"[A-Za-z0-9+/=_-]{100,1000}"),
    Token("Netlify", ("nfp_",), f"{_WORD}{{36,40}}"),
    Token("Supabase", ("sbp_",), f"{_HEX}{{40}}"),
    Token("Supabase", ("sb_secret_",), f"{_URL}{{24,60}}"),
    Token("PlanetScale", ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), r"[\w.-]{32,64}"),
    Token("Neon", ("napi_",), "[a-z0-9]{40,70}"),
    Token("Doppler", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa."), r"[\w.-]{40,60}"),
    Token("Vault", ("hvs.", "hvb."), f"{_URL}{{24,200}}"),
    Token("Terraform", (".atlasv1.",), f"{_URL}{{60,70}}", f"{_WORD}{{14}}", 14),
    Token("Pulumi", ("pul-",), f"{_HEX}{{40}}"),
    Token("Databricks", ("dapi",), f"{_HEX}{{32}}(?:-\\d)?"),
    Token("Linear", ("lin_api_",), f"{_WORD}{{40}}"),
    Token("Notion", ("ntn_",), f"{_WORD}{{40,50}}"),
    Token("Notion", ("secret_",), f"{_WORD}{{43}}"),
    Token("Airtable", ("pat",), r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    Token("Atlassian", ("ATATT3", "ATCTT3"), r"[\w=-]{100,300}"),
    Token("Figma", ("figd_",), f"{_URL}{{40}}"),
    Token("Postman", ("PMAK-",), "[0-9a-f]{24}-[0-9a-f]{34}"),
    Token("Grafana", ("glsa_",), "[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    Token("New Relic", ("NRAK-",), "[A-Z0-9]{27}"),
    Token("Sentry", ("sntrys_",), r"[A-Za-z0-9+/=_]{40,400}"),
    Token("Sentry", ("sntryu_",), f"{_HEX}{{64}}"),
    Token("Dynatrace", ("dt0c01.", "dt0s01."), r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    Token("Alibaba", ("LTAI",), f"{_WORD}{{12,26}}"),
    Token("Tencent", ("AKID",), f"{_WORD}{{32}}"),
    Token("Tailscale", ("tskey-",), r"[a-z]{3,8}-[\w-]{20,80}"),
    Token("Buildkite", ("bkua_",), f"{_HEX}{{40}}"),
    Token("CircleCI", ("CCIPAT_", "CCIPRJ_"), r"\w{40,70}"),
    Token("age", ("AGE-SECRET-KEY-1",), "[A-Z0-9]{58}"),
    Token("1Password", ("ops_eyJ",), r"[\w+/=-]{100,1500}"),
    Token("JWT", ("eyJ",), r"[\w-]{8,2000}+\.eyJ[\w-]{8,4000}+\.[\w-]{16,1000}"),
)

SHORTEST = 16  # characters of any form, none of them a blank: most prose has no such word

# The one form without a fixed text: the number of an account in base64, a time, a signature.
_DISCORD = re.compile(r"(?<![\w-])[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}(?![\w-])")

# A token may follow what is no letter or digit, an escape in a text or one in a URL. Looked at
# behind the fixed text.
_START = r"(?:(?<![A-Za-z0-9]{fixed})|(?<=\\[nrt]{fixed})|(?<=%[0-9A-Fa-f][0-9A-Fa-f]{fixed}))"
_STARTS_AFTER = re.compile(r"(?:^|[^A-Za-z0-9]|\\[nrt]|%[0-9A-Fa-f]{2})\Z")
_LONGEST_START = 3


class TokenFinder:
    """Finds tokens; a form is compiled when its fixed text first occurs."""

    def __init__(self, tokens: tuple[Token, ...] = TOKENS) -> None:
        self._tokens = tokens
        self._compiled: dict[str, re.Pattern[str]] = {}

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """The ranges of tokens, without examples from documentation."""
        # Most of a text are short words.
        long = "\n".join(word for word in text.split() if len(word) >= SHORTEST)
        if not long:
            return
        for token in self._tokens:
            for keyword in token.keywords:
                if keyword in long:
                    for match in self._pattern(token, keyword).finditer(text):
                        if span := _whole(text, match, token):
                            yield span
        for match in _DISCORD.finditer(text):
            if not is_example(match[0]):
                yield match.span()

    def _pattern(self, token: Token, keyword: str) -> re.Pattern[str]:
        """The fixed text and what follows: a search for it is as quick as one for the fixed text."""
        fixed = re.escape(keyword)
        start = "" if token.before else _START.format(fixed=fixed)
        expression = rf"{fixed}{start}(?P<after>{token.after})(?![A-Za-z0-9])"
        if expression not in self._compiled:
            self._compiled[expression] = re.compile(expression)
        return self._compiled[expression]


def _whole(text: str, match: re.Match[str], token: Token) -> tuple[int, int] | None:
    """The range of the whole token, with the part before its fixed text; None for no token."""
    start = match.start()
    if token.before:
        first = max(0, start - token.most_before)
        found = re.search(rf"(?:{token.before})\Z", text[first:start])
        if found is None:
            return None
        start = first + found.start()
        if not _STARTS_AFTER.search(text[max(0, start - _LONGEST_START) : start]):
            return None
    # The fixed text does not count for the variety of letters.
    if is_example(text[start : match.start()] + match["after"]):
        return None
    return start, match.end()

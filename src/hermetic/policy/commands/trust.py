"""Whom this machine believes: signing keys and certificates."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import read
from hermetic.policy.marks import NET
from hermetic.policy.options import parse_options

from .packages import TAMPER


def judge_gpg(call: Call) -> None:
    """Report keys that come from another machine into the keyring."""
    options = parse_options(call.args, "", ("keyserver", "output", "homedir", "keyring"))
    text = " ".join(call.args)
    if re.search(r"--(recv-keys?|receive-keys|fetch-keys?|refresh-keys|search-keys)\b", text):
        call.report(TAMPER, "takes signing keys from another machine")
    elif re.search(r"--(fast-)?import(\s|$)", text):
        sources = [read(call, path) for path in options.operands] or [call.stdin or ""]
        if any(NET in source for source in sources):
            call.report(TAMPER, "takes signing keys from another machine")


def judge_certificates(call: Call) -> str | None:
    """keytool, certutil, security: certificates this machine or a person's programs trust."""
    text = " ".join(call.args)
    trusts = {
        "keytool": r"-import(cert)?\b.*(-cacerts|cacerts|-trustcacerts)",
        "certutil": r"(^|\s)-A\b.*-t\s+\S*[CT]",
        "security": r"\badd-(trusted-cert|certificates)\b",
        "mkcert": r"-install",
        "rpm": r"--import\b",
    }
    if re.search(trusts[call.name], text):
        call.report(TAMPER, "changes whom this machine trusts")
    return None


def with_trust(judges: dict[str, Judge], fallback: Judge) -> dict[str, Judge]:
    """The same judges for programs that can change whom the machine trusts, with that added."""

    def joined(judge: Judge, name: str) -> Judge:
        def both(call: Call) -> str | None:
            if name.startswith("gpg"):
                judge_gpg(call)
            else:
                judge_certificates(call)
            return judge(call)

        return both

    return {
        name: joined(judges.get(name, fallback), name)
        for name in ("gpg", "gpg2", "keytool", "certutil", "security", "mkcert", "rpm")
    }

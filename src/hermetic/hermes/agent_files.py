"""Files of Hermes Agent that its model is told of: skills, caches of uploads and downloads, and
credential files, shown in environments that do not see this machine's.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from hermetic.config.values import option_fields
from hermetic.contract.errors import ConfigError
from hermetic.environments.profile import INSIDE, select_profile

PLACE = ".hermes"  # in the home inside, by which Hermes names them
ROOTS = {"docker": "/root", "podman": "/root", "apptainer": "/root"}  # the home, where it is known
NEEDED = {"profile", "credential_files", "setup"}  # options of kinds that show a profile
LINK = f"""\
__hermetic=${{HERMETIC_PROFILE:-$HOME/{INSIDE}}}
[ ! -d "$__hermetic" ] || [ -e "${{__hermetic%/*}}/{PLACE}" ] || ln -s {INSIDE} "${{__hermetic%/*}}/{PLACE}" || :
unset __hermetic
"""

_log = logging.getLogger("hermetic.hermes")


def shown_files(kind: str, options: Mapping[str, Any], named: object) -> dict[str, Any]:
    """Options that show the files of this Hermes in a new environment, with the credential files
    that its configuration names; none for a kind that works on this machine's, or where the
    settings name a profile themselves.
    """
    if not _shows_a_profile(kind) or options.get("profile"):
        return {}
    from tools.credential_files import _resolve_hermes_home

    home = str(_resolve_hermes_home())
    files = (*options.get("credential_files", ()), *_usable(home, named))
    text = f"{LINK}{options.get('setup') or ''}"
    return {"profile": home, "credential_files": tuple(dict.fromkeys(files)), "setup": text}


def cache_base(kind: str) -> str | None:
    """The directory there that holds `cache`; None where this machine's paths are valid."""
    if not _shows_a_profile(kind):
        return None
    return f"{ROOTS.get(kind, '~')}/{PLACE}"


def _shows_a_profile(kind: str) -> bool:
    return option_fields(kind).keys() >= NEEDED


def _usable(home: str, named: object) -> Iterator[str]:
    """The names that may be shown, whether the files exist yet or not: they identify a container,
    which the next process is to find.
    """
    texts = (
        [one.strip() for one in named if isinstance(one, str)] if isinstance(named, list) else []
    )
    for path in texts:
        try:
            select_profile(home, [path])
        except ConfigError as error:
            _log.warning("%s", error)
        else:
            yield path

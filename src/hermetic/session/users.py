"""Users of an environment: the one who runs its commands, and whether commands can run as another
one.
"""

from dataclasses import dataclass

from hermetic.session.environment import Environment

SWITCHING = 1 << 6 | 1 << 7  # the capabilities SETGID and SETUID
# Id, name and capabilities of the user, a line each; an image may know no name.
REPORT = """\
id -u; echo "$(id -un 2>/dev/null)"
while read -r name value; do [ "$name" != CapEff: ] || echo "$value"; done < /proc/self/status
"""


@dataclass(frozen=True)
class Users:
    """The user of commands that name none."""

    name: str
    id: str
    can_switch: bool = False  # root of a container may become any of its users

    def __str__(self) -> str:
        return self.name or self.id

    def argv(self, user: str | int | None, words: list[str]) -> list[str] | None:
        """The words that run a program as a user; None where there is no way to become that one."""
        wanted = "" if user is None else str(user)
        if wanted in ("", self.name, self.id):
            return words
        if not self.can_switch:
            return None
        if wanted.isdigit():
            return [
                "setpriv",
                f"--reuid={wanted}",
                f"--regid={wanted}",
                "--clear-groups",
                "--",
                *words,
            ]
        return ["su", "-s", "/bin/sh", "-c", 'exec "$@"', "--", wanted, "sh", *words]


async def users_of(environment: Environment) -> Users:
    """Who runs the commands of an environment."""
    id, name, *capabilities = (await environment.run(REPORT)).output.splitlines()
    rights = int(capabilities[0], 16) if capabilities and id == "0" else 0
    # On this machine, its other users are not the environment's.
    return Users(name, id, environment.isolation.separate_files and rights & SWITCHING == SWITCHING)

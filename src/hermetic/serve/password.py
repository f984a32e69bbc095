"""The password of the console, for logins from other machines.

Its scrypt hash is kept in the user's configuration.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

import msgspec

from hermetic.contract.errors import ConfigError, InvalidArgument

SHORTEST = 12  # characters
_COST = {"n": 1 << 15, "r": 8, "p": 1, "maxmem": 64 << 20}


class Password(msgspec.Struct, frozen=True, kw_only=True):
    """A salted hash."""

    salt: bytes
    hash: bytes

    def fits(self, text: str) -> bool:
        """True for the right password. It takes a tenth of a second on purpose."""
        return hmac.compare_digest(_hash(text, self.salt), self.hash)


def password_file() -> Path:
    """The file of the hash, which need not exist."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base, "hermetic", "console-password.json").absolute()


def read_password() -> Password | None:
    """The password of this user; None where none was set. Raises ConfigError."""
    path = password_file()
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise ConfigError(
                    f"{path} must belong to you alone; run: chmod 600 {path}", setting="password"
                )
            return msgspec.json.decode(file.read(), type=Password)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}); set the password again: hermetic serve password",
            setting="password",
        ) from None


def check_password(text: str) -> None:
    """Raises InvalidArgument for a short one."""
    if len(text) < SHORTEST:
        raise InvalidArgument(
            f"the password needs at least {SHORTEST} characters", argument="password"
        )


def write_password(text: str) -> Path:
    """Sets the password; returns the file. Raises InvalidArgument for a short one."""
    check_password(text)
    salt = secrets.token_bytes(16)
    path = password_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = path.with_suffix(".new")
    aside.unlink(missing_ok=True)
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(msgspec.json.encode(Password(salt=salt, hash=_hash(text, salt))))
    aside.rename(path)
    return path


def _hash(text: str, salt: bytes) -> bytes:
    return hashlib.scrypt(text.encode("utf-8", "surrogatepass"), salt=salt, **_COST)

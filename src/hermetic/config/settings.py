"""All settings with their types and defaults."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from hermetic.approvals.settings import ApprovalSettings
from hermetic.contract import limits
from hermetic.environments.profile import HomeMode
from hermetic.redaction.known_secrets import KnownSecret, secrets_of

Seconds = Annotated[float, msgspec.Meta(gt=0)]
LeaseSeconds = Annotated[float, msgspec.Meta(ge=0)]
Characters = Annotated[int, msgspec.Meta(ge=1000)]


class EnvironmentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where commands run. What is None is left to the kind."""

    kind: str = "local"
    cwd: str | None = None  # where sessions start
    lease: LeaseSeconds | None = None  # life without a caller and without a process
    unattended: LeaseSeconds | None = None  # life without a caller while a process runs
    # whose files and skills places are shown, and whose home commands have
    profile: str | None = None
    home: HomeMode = "auto"  # of commands on this machine
    across_processes: bool = True  # False: every task is the toolbox's alone, and ends with it
    # of the profile, shown to places with files of their own
    credential_files: tuple[str, ...] = ()


class TerminalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long the terminal tool waits, and how much it answers."""

    timeout: Seconds = limits.FOREGROUND  # for a command that says nothing else
    longest_timeout: Seconds = limits.LONGEST_FOREGROUND  # most that a command may ask for
    output_characters: Characters = limits.MODEL_OUTPUT  # most output in an answer
    kill_grace: Seconds = limits.KILL_GRACE  # between TERM and KILL, when the process tool kills


class FilesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the file tools may do, and how much they answer."""

    write_root: str | None = None  # nothing is written outside of this directory of the environment
    read_characters: Characters = limits.READ_CHARACTERS  # most of a file in an answer


class CodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What scripts that call tools may use."""

    timeout: Seconds = limits.CODE_TIME  # for a script that says nothing else, and the most
    max_tool_calls: Annotated[int, msgspec.Meta(ge=0)] = limits.CODE_CALLS
    timezone: str | None = None  # TZ of scripts
    # names of the session's variables that scripts get besides the usual ones
    passthrough: tuple[str, ...] = ()
    isolated: bool = False  # scripts run in a sandbox of their own
    warm: bool = True  # an interpreter is started ahead of the next script


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the web tools search and fetch. Keys and addresses of providers are variables."""

    search_backend: Literal[
        "auto", "off", "tavily", "exa", "firecrawl", "searxng", "brave", "duckduckgo"
    ] = "auto"
    extract_backend: Literal["local", "off", "tavily", "exa", "firecrawl"] = "local"
    # of a page
    extract_char_limit: Annotated[int, msgspec.Meta(ge=2000, le=500_000)] = limits.WEB_CHARACTERS
    timeout: Seconds = limits.WEB_TIME  # for a page
    # the only hosts that pages are fetched from; none: every public one
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()  # hosts that pages are not fetched from
    private_hosts: tuple[str, ...] = ()  # hosts that may have private addresses
    proxy: str | None = None  # for all requests of these tools

    def __repr__(self) -> str:
        return f"WebSettings(search_backend={self.search_backend!r}, extract_backend={self.extract_backend!r})"


class RedactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which secrets models do not see."""

    enabled: bool = True
    # names of variables whose values are secrets though their names do not say so
    variables: tuple[str, ...] = ()


class SudoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How sudo gets its password."""

    password: str | None = None  # None: from a person; empty: an empty password is tried
    timeout: Seconds = limits.PASSWORD  # for a person to enter it

    def __repr__(self) -> str:
        return f"SudoSettings(password={'None' if self.password is None else 'hidden'}, timeout={self.timeout})"


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the console does without a request."""

    record: Literal["none", "terminals", "all"] = "none"  # what it records from its start on


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings, and where each came from."""

    environment: EnvironmentSettings = EnvironmentSettings()
    options: Mapping[str, Any] = {}  # for `hermetic.open(environment.kind, **options)`
    terminal: TerminalSettings = TerminalSettings()
    files: FilesSettings = FilesSettings()
    code_execution: CodeSettings = CodeSettings()
    web: WebSettings = WebSettings()
    redaction: RedactionSettings = RedactionSettings()
    sudo: SudoSettings = SudoSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    console: ConsoleSettings = ConsoleSettings()
    # setting → file and line, or variable; what is missing has its default
    places: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()  # what was left out, and why
    sources: tuple[str, ...] = ()  # the files they were read from

    def known_secrets(self, environ: Mapping[str, str]) -> list[KnownSecret]:
        """The values that no model may see: of these variables, of the environment's, and the
        password of sudo.
        """
        given = self.options.get("env")
        own = (
            {name: str(value) for name, value in given.items()}
            if isinstance(given, Mapping)
            else {}
        )
        own |= {"web.proxy": self.web.proxy} if self.web.proxy else {}
        named = [
            KnownSecret(name, environ[name])
            for name in self.redaction.variables
            if environ.get(name)
        ]
        password = [KnownSecret("sudo password", self.sudo.password)] if self.sudo.password else []
        return [*password, *named, *secrets_of(own), *secrets_of(environ)]


# The tables of a settings file.
SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    field.name: field.type
    for field in msgspec.structs.fields(Settings)
    if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)
}

# What the original calls some settings.
ORIGINAL_NAMES: Mapping[str, str] = {"terminal.credential_files": "environment.credential_files"}

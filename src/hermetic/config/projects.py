"""The settings that a project's file may change. A checkout must not widen what the user allows.

Every setting has a rule: it may be tightened, chosen among what the user allows, or only the user
sets it. A setting without a rule is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import msgspec

from hermetic.config.settings import SECTIONS
from hermetic.config.values import Given, checked_kind, option_fields, typed
from hermetic.contract.errors import ConfigError
from hermetic.contract.limits import LEASE, UNATTENDED
from hermetic.environments import catalog

# Kinds that a project may choose besides the user's own: none exposes more of this machine.
_STRICTER = {
    "local": ("sandbox", "docker", "podman", "apptainer"),
    "docker": ("sandbox",),
    "podman": ("sandbox",),
    "apptainer": ("sandbox",),
}
# Options by which the user shares something with environments of a kind.
_SHARING = """
    volumes forward_env extra_args credential_files profile readable passthrough overlay persistent
    sync
"""
_REGISTRIES = ("docker://", "library://", "oras://", "shub://")
_PATHS = ("environment.cwd", "environments.sandbox.cwd", "environments.apptainer.image")
_CLOCKS = {"environment.lease": LEASE, "environment.unattended": UNATTENDED}


class Asked(NamedTuple):
    """A setting of a project's file, and the user's own settings."""

    given: Given
    own: Mapping[str, Given]  # of the user's file and the variables, by setting
    folder: Path  # of the project

    @property
    def kind(self) -> str:
        """The kind that the setting is an option of; empty for a setting of no kind."""
        section, kind, *_ = self.given.setting.split(".")
        return kind if section == "environments" else ""

    @property
    def name(self) -> str:
        """The setting without its section."""
        return self.given.setting.rpartition(".")[2]

    @property
    def value(self) -> Any:
        """The project's value. Raises ConfigError for a wrong type."""
        return typed(self.given, self._field.type)

    @property
    def users(self) -> Any:
        """The value without the project: the user's, else the default."""
        own = self.own.get(self.given.setting) or (
            self.own.get(f"environment.{self.name}") if self.kind else None
        )
        if own:
            return typed(own, self._field.type)
        return _CLOCKS.get(self.given.setting, self._field.default)

    def of_kind(self, option: str) -> Any:
        """The user's value for another option of the same kind; None without one."""
        own = self.own.get(f"environments.{self.kind}.{option}") or self.own.get(
            f"environment.{option}"
        )
        return own and typed(own, option_fields(self.kind)[option].type)

    @property
    def _field(self) -> msgspec.structs.FieldInfo:
        section = self.given.setting.partition(".")[0]
        if self.kind:
            return option_fields(self.kind)[self.name]
        return next(
            field for field in msgspec.structs.fields(SECTIONS[section]) if field.name == self.name
        )


Word = Literal["tighten", "choose", "refused"]


class Rule(NamedTuple):
    """How a project may use a setting."""

    word: Word
    rule: str  # what is allowed, for the error message
    fits: Callable[[Asked], bool]


def _is_smaller(asked: Asked) -> bool:
    """For limits where 0 and None mean unlimited."""
    return asked.value > 0 and (not asked.users or asked.value <= asked.users)


def _is_stricter_kind(asked: Asked) -> bool:
    own = asked.own.get("environment.kind")
    users = "local" if own is None else checked_kind(typed(own, str), own.place)
    return checked_kind(asked.value, asked.given.place) in (users, *_STRICTER.get(users, ()))


def _is_inside(asked: Asked) -> bool:
    if asked.value.startswith("~") or ".." in Path(asked.value).parts:
        return False
    return _real(asked.value, asked.folder).is_relative_to(asked.folder)


def _real(path: str, folder: Path) -> Path:
    """The resolved path of a project's file: it is checked, and it is used."""
    return (folder / path).resolve()


def _only_adds(asked: Asked) -> bool:
    """False for rows with a pattern that spares: what it matches would be asked about no longer."""
    rows = [
        row
        for layer in asked.value
        for name, row in layer.items()
        if name != "rules" and isinstance(row, dict)
    ]
    entries = [entry for row in rows for entry in row.get("rules", ())]
    return all(isinstance(entry, list) and len(entry) > 1 and bool(entry[1]) for entry in entries)


def _shares_nothing(asked: Asked) -> bool:
    """Whether the user shares nothing with environments of this kind but the project itself."""
    options = option_fields(asked.kind)
    if any(asked.of_kind(option) for option in _SHARING.split() if option in options):
        return False
    mounted = asked.of_kind("host_cwd") if "host_cwd" in options else None
    return mounted is None or Path(mounted).expanduser().resolve().is_relative_to(asked.folder)


def _is_image_apart(asked: Asked) -> bool:
    """An image of apptainer may be a directory of this machine, which shows all of it."""
    is_named = asked.value.startswith(_REGISTRIES) if ":" in asked.value else _is_inside(asked)
    return _shares_nothing(asked) and is_named


# How a value of a project fits, by its first word in the table.
_FITS: Mapping[str, Callable[[Asked], bool]] = {
    "less": lambda asked: bool(asked.value <= asked.users),
    "smaller": _is_smaller,
    "first": lambda asked: asked.users in (None, (), asked.value),
    "yes": lambda asked: asked.value is True,
    "no": lambda asked: asked.value is False,
    "no-or-same": lambda asked: asked.value is False or asked.users is True,
    "off": lambda asked: asked.value == "off",
    "deny": lambda asked: asked.value == "deny" and asked.users != "sandbox-first",
    "asks": lambda asked: all(rule.decision in ("ask", "deny") for rule in asked.value),
    "adds": _only_adds,
    "kind": _is_stricter_kind,
    "inside": _is_inside,
    "apart": _shares_nothing,
    "image": _is_image_apart,
    "any": lambda asked: True,
    "none": lambda asked: False,
}
# Each rule: how settings may be used, how a value fits, what is allowed; then its settings, where
# `*` stands for every kind that has the option and is not named with it.
_TABLE = """
tighten less no more than yours, or the default
    environment.lease environment.unattended terminal.timeout terminal.longest_timeout
    terminal.output_characters terminal.kill_grace files.read_characters code_execution.timeout
    code_execution.max_tool_calls web.extract_char_limit web.timeout approvals.session_seconds
    approvals.always_days environments.*.lease environments.*.unattended
tighten first any directory, where you set none
    files.write_root
tighten yes only yes
    code_execution.isolated redaction.enabled
tighten any adds to yours
    redaction.variables approvals.deny web.deny
tighten first any hosts, where you list none
    web.allow
tighten off only `off`
    web.search_backend web.extract_backend
tighten deny only `deny`, and not where yours is `sandbox-first`
    approvals.mode
tighten deny only `deny`
    approvals.nobody
tighten asks rules that ask or deny; they add to yours
    approvals.rules
tighten adds rows whose patterns all name a rule; they add to yours
    approvals.programs
tighten smaller no more than yours, or the default; a limit stays one
    environments.*.cpu environments.*.memory_bytes environments.*.pids environments.*.disk_bytes
tighten no only no
    environment.across_processes environments.*.network
tighten no-or-same no, or as yours
    environments.*.login
choose kind your kind or a stricter one: `sandbox`, `docker`, `podman` and `apptainer` for `local`, \
`sandbox` for a container
    environment.kind
choose inside a directory of the project
    environment.cwd environments.sandbox.cwd
choose any anything
    code_execution.timezone code_execution.warm
choose apart anything, where you share nothing with that kind but the project: \
no volumes, forwarded variables, credential files, profile, extra words, readable directories, overlay or persistent files
    environments.*.image environments.*.cwd environments.*.env environments.*.setup
choose image one of a registry or of the project, where you share nothing with that kind
    environments.apptainer.image
refused none only you set it
    environment.profile environment.home environment.credential_files code_execution.passthrough
    web.private_hosts web.proxy sudo.password sudo.timeout approvals.answers approvals.timeout
    approvals.wait approvals.file approvals.log console.record environments.local.cwd
    environments.local.env environments.ssh.cwd environments.ssh.env environments.ssh.setup
    environments.*.config environments.*.credential_files environments.*.extra_args
    environments.*.forward_env environments.*.home environments.*.host environments.*.host_cwd
    environments.*.init_files environments.*.key environments.*.overlay environments.*.passthrough
    environments.*.persistent environments.*.port environments.*.profile environments.*.protect
    environments.*.readable environments.*.runtime environments.*.settings environments.*.sync
    environments.*.user environments.*.volumes environments.*.workspace environments.modal.cpu
    environments.modal.memory_bytes environments.daytona.cpu environments.daytona.memory_bytes
    environments.daytona.disk_bytes environments.*.create_arguments environments.*.gpu
    environments.*.idle environments.*.labels environments.*.lifetime environments.*.name
    environments.*.region environments.*.snapshot environments.*.startup
    environments.kubernetes.cpu environments.kubernetes.memory_bytes
    environments.kubernetes.disk_bytes environments.*.annotations environments.*.claim
    environments.*.context
    environments.*.kubeconfig environments.*.namespace environments.*.node_selector
    environments.*.pending environments.*.pod environments.*.pool environments.*.pull_policy
    environments.*.pull_secrets environments.*.resources environments.*.runtime_class
    environments.*.service_account environments.*.tolerations environments.slurm.image
    environments.slurm.cwd environments.slurm.env environments.slurm.setup environments.slurm.cpu
    environments.slurm.memory_bytes environments.slurm.network environments.*.partition
    environments.*.account environments.*.qos environments.*.constraint environments.*.reservation
    environments.*.nodelist environments.*.gpus environments.*.prelude environments.*.apptainer
    environments.*.apptainer_args environments.*.scratch
"""


def _rules() -> Iterator[tuple[str, Rule]]:
    """The table: each setting and its rule."""
    rule = None
    for line in _TABLE.strip().splitlines():
        if line.startswith(" ") and rule is not None:
            yield from ((setting, rule) for setting in line.split())
        else:
            word, fits, allowed = line.split(" ", 2)
            rule = Rule(cast(Word, word), allowed, _FITS[fits])


RULES: Mapping[str, Rule] = dict(_rules())
_REFUSED = RULES["sudo.password"]


def rule_of(setting: str) -> Rule | None:
    """The rule of a setting; None counts as refused."""
    section, _, rest = setting.partition(".")
    kind, _, option = rest.partition(".")
    is_ours = section == "environments" and kind in catalog.KINDS
    return RULES.get(setting) or (RULES.get(f"environments.*.{option}") if is_ours else None)


def of_project(
    path: Path, wanted: Iterable[Given], own: Mapping[str, Given], trusted: Iterable[str]
) -> Iterator[Given]:
    """The settings of a project's file. Raises ConfigError for one that widens what the user
    allows.

    `own` is what the user's file and the variables say. What a trusted project says holds as it is.
    """
    folder = path.parent.resolve()
    is_trusted = any(Path(one).expanduser().resolve() == folder for one in trusted)
    for given in wanted:
        rule = rule_of(given.setting) or _REFUSED
        if not is_trusted and not rule.fits(Asked(given, own, folder)):
            plain = rule.rule.replace("`", "")
            raise ConfigError(
                f"{given.place}: a project cannot set {given.setting} like this; allowed: {plain}. "
                f'Set it in your own file or by a variable, or add trusted_projects = ["{folder}"] to your own file',
                setting=given.setting,
            )
        yield _whole(given, folder)


def _whole(given: Given, folder: Path) -> Given:
    """The same with absolute, resolved paths: relative ones start at the file's directory."""
    if (
        given.setting not in _PATHS
        or not isinstance(given.value, str)
        or given.value.startswith("~")
    ):
        return given
    is_address = given.setting.endswith(".image") and ":" in given.value
    return given if is_address else given._replace(value=str(_real(given.value, folder)))

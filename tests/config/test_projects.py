"""A project's file tightens or chooses; nothing in it widens what the user allows.

Driven for every setting.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermetic.config import Settings
from hermetic.config.projects import rule_of
from hermetic.config.settings import SECTIONS
from hermetic.config.values import option_fields
from hermetic.contract.errors import ConfigError
from tests.config.test_loading import Machine
from tests.config.test_page import KEYS

ASKING = '[{ decision = "ask", command = ["x"], matches = ["x 1"] }]'
ALLOWING = ASKING.replace("ask", "allow")
# Setting → what a project may say, what it may not; TOML.
SINGLE = {
    "environment.kind": ('"docker"', '"ssh"'),
    "environment.cwd": ('"src"', '"/"'),
    "environment.across_processes": ("false", "true"),
    # anything is tighter than none; with the user's own below
    "files.write_root": ('"/srv/x"', None),
    "code_execution.timezone": ('"UTC"', None),
    "code_execution.warm": ("false", None),
    "code_execution.isolated": ("true", "false"),
    "web.search_backend": ('"off"', '"duckduckgo"'),
    "web.extract_backend": ('"off"', '"local"'),
    "web.allow": ('["a.example"]', None),  # with the user's own below
    "web.deny": ('["a.example"]', None),
    "redaction.enabled": ("true", "false"),
    "redaction.variables": ('["A"]', None),
    "approvals.mode": ('"deny"', '"allow"'),
    "approvals.nobody": ('"deny"', '"allow"'),
    "approvals.deny": ('["x"]', None),
    "approvals.rules": (ASKING, ALLOWING),
    "approvals.programs": (
        '{ x = { rules = [["^a", "write-system", "b"]] } }',
        '{ x = { rules = [["^a", ""]] } }',
    ),
}
OPTIONS = {
    "network": ("false", "true"),
    "login": ("false", None),
    "image": ('"docker://x"', None),
    "cwd": ('"/srv/x"', None),
    "env": ('{ A = "1" }', None),
    "setup": ('"make"', None),
}
REFUSED = {
    "environment.profile": '"/"',
    "environment.home": '"real"',
    "environment.credential_files": '["a"]',
    "code_execution.passthrough": '["A"]',
    "web.private_hosts": '["a"]',
    "web.proxy": '"http://x"',
    "sudo.password": '"x"',
    "sudo.timeout": "1",
    "approvals.answers": '"queue"',
    "approvals.timeout": "1",
    "approvals.wait": "false",
    "approvals.file": '"/x"',
    "approvals.log": '"/x"',
    "console.record": '"all"',
}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def written(setting: str, value: object) -> str:
    section, _, name = setting.rpartition(".")
    return f"[{section}]\n{name} = {value}\n"


def in_force(settings: Settings, setting: str) -> Any:
    section, _, name = setting.rpartition(".")
    if section.startswith("environments."):
        return settings.options.get(name)
    return getattr(getattr(settings, section), name)


def kind_of(setting: str) -> dict[str, str]:
    """The variable that makes an option's kind the chosen one."""
    return (
        {"HERMETIC_ENVIRONMENT": setting.split(".")[1]}
        if setting.startswith("environments.")
        else {}
    )


def refused(machine: Machine, setting: str, value: object, **more: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"hermetic\.toml:2: a project cannot set {setting} like this"
    ):
        machine.load(project=written(setting, value), **more)


def default_of(setting: str) -> Any:
    """What holds where the user says nothing."""
    section, _, name = setting.rpartition(".")
    if section.startswith("environments."):
        return option_fields(section.removeprefix("environments."))[name].default
    clocks = {"environment.lease": 300, "environment.unattended": 86_400}
    return clocks.get(setting, getattr(SECTIONS[section](), name, None))


@pytest.mark.parametrize("setting", [key for key in KEYS if "singularity" not in key])
def test_a_setting_is_never_widened(machine: Machine, setting: str) -> None:
    known = rule_of(setting)
    assert known is not None
    name = setting.rpartition(".")[2]
    if known.word == "refused":
        refused(machine, setting, REFUSED.get(setting, '"x"'))
        return
    if known.rule.startswith("no more than yours"):
        a_limit(
            machine, setting, default_of(setting), can_be_none="a limit stays one" in known.rule
        )
        return
    fitting, widening = SINGLE.get(setting) or OPTIONS[name]
    if setting == "environments.sandbox.cwd":
        fitting, widening = '"src"', '"/"'
    if setting == "environments.docker.image":
        fitting = '"x"'
    settings = machine.load(
        project=written(setting, fitting), **kind_of(setting), HERMETIC_SSH_HOST="h"
    )
    assert settings.places[setting] == f"{machine.project}/hermetic.toml:2"
    if widening is not None:
        refused(machine, setting, widening)


def a_limit(machine: Machine, setting: str, default: float | None, *, can_be_none: bool) -> None:
    """The default and the user's value both bound what a project may say; the user's variable does
    as well.
    """
    name, variables = setting.rpartition(".")[2], {**kind_of(setting), "HERMETIC_SSH_HOST": "h"}
    limit = default or 1 << 30
    lower = limit / 2 if name == "cpu" else int(limit / 2)
    if default:  # without a limit by default, every one is tighter
        refused(machine, setting, limit * 2)
    assert in_force(machine.load(project=written(setting, lower), **variables), setting) == lower
    machine.load(user=written(setting, lower), project=written(setting, lower), **variables)
    refused(machine, setting, limit)
    if can_be_none:
        with pytest.raises(ConfigError, match=r"hermetic\.toml:2: "):  # 0 is no limit at all
            machine.load(project=written(setting, 0))
    machine.user_file.unlink()
    variable = "HERMETIC_" + setting.removeprefix("environments.").replace(".", "_").upper()
    refused(machine, setting, limit, **{variable: str(lower)})


def test_the_users_bound_for_every_kind_holds_for_one(machine: Machine) -> None:
    machine.user_file.write_text("[environment]\nlease = 100\n")
    refused(machine, "environments.docker.lease", 200)
    assert machine.load(project="[environments.local]\nlease = 50\n").options["lease"] == 50


def test_no_directory_is_chosen_outside_of_the_project(machine: Machine, tmp_path: Path) -> None:
    (machine.project / "link").symlink_to("/")
    for path in ("/", "..", "src/../..", "~", "~root", str(tmp_path), "link", "link/etc"):
        refused(machine, "environment.cwd", f'"{path}"')
        refused(machine, "environments.sandbox.cwd", f'"{path}"')
    for path in ("src", ".", str(machine.project), f"{machine.project}/src"):
        # From wherever it is loaded, a path of the project's file begins where the file lies.
        settings = machine.load(project=written("environment.cwd", f'"{path}"'), where="src")
        assert settings.options["cwd"] == str(machine.project / path)


@pytest.mark.parametrize("name", ["x:y", "docker://x", "a b", "x"])
def test_the_directory_that_is_checked_is_the_one_that_is_used(
    machine: Machine, tmp_path: Path, name: str
) -> None:
    (machine.project / name).mkdir(parents=True)
    # the same words, from where the file is loaded, lead out of the project
    below = machine.project / "src" / name
    below.parent.mkdir(parents=True, exist_ok=True)
    below.symlink_to(tmp_path)
    settings = machine.load(project=written("environment.cwd", f'"{name}"'), where="src")
    assert settings.options["cwd"] == str((machine.project / name).resolve())
    inner = machine.project / "inner"
    inner.symlink_to(machine.project / name)
    settings = machine.load(project=written("environment.cwd", '"inner"'), where="src")
    assert settings.options["cwd"] == str((machine.project / name).resolve())


def test_the_bound_of_writing_is_the_users(machine: Machine) -> None:
    machine.user_file.write_text('[files]\nwrite_root = "/srv/mine"\n')
    for path in ("/", "/srv", "/srv/mine/link"):
        refused(machine, "files.write_root", f'"{path}"')
    assert (
        machine.load(project='[files]\nwrite_root = "/srv/mine"\n').files.write_root == "/srv/mine"
    )


def test_the_hosts_that_are_allowed_are_the_users(machine: Machine) -> None:
    machine.user_file.write_text('[web]\nallow = ["a.example"]\ndeny = ["b.a.example"]\n')
    refused(machine, "web.allow", '["a.example", "c.example"]')
    refused(machine, "web.allow", "[]")
    assert machine.load(project='[web]\ndeny = ["c.a.example"]\n').web.deny == (
        "b.a.example",
        "c.a.example",
    )


@pytest.mark.parametrize(
    ("users", "stricter", "others"),
    [
        ("local", ("local", "sandbox", "docker", "podman", "apptainer", "singularity"), ("ssh",)),
        ("docker", ("docker", "sandbox"), ("local", "podman", "ssh")),
        ("sandbox", ("sandbox",), ("local", "docker", "ssh")),
        ("ssh", ("ssh",), ("local", "sandbox", "docker")),
    ],
)
def test_only_a_stricter_kind_is_chosen(
    machine: Machine, users: str, stricter: tuple[str, ...], others: tuple[str, ...]
) -> None:
    machine.user_file.write_text(
        f'[environment]\nkind = "{users}"\n[environments.ssh]\nhost = "h"\n'
    )
    for kind in stricter:
        settings = machine.load(project=f'[environment]\nkind = "{kind}"\n')
        assert settings.environment.kind == kind.replace("singularity", "apptainer")
    for kind in others:
        refused(machine, "environment.kind", f'"{kind}"')


@pytest.mark.parametrize(
    "shared",
    [
        "volumes = ['/srv:/srv']",
        "forward_env = ['TOKEN']",
        "credential_files = ['a']",
        "profile = 'p'",
        "extra_args = ['--privileged']",
        "host_cwd = '/srv'",
        "persistent = true",
    ],
)
def test_no_program_of_the_projects_choice_meets_what_the_user_shares(
    machine: Machine, shared: str
) -> None:
    machine.user_file.write_text(
        f'[environment]\nkind = "docker"\n[environments.docker]\n{shared}\n'
    )
    for option, value in {
        "image": '"x"',
        "setup": '"x"',
        "env": '{ BASH_ENV = "x" }',
        "cwd": '"/srv"',
    }.items():
        refused(machine, f"environments.docker.{option}", value)


def test_the_projects_own_directory_may_be_shared_with_its_image(machine: Machine) -> None:
    project = '[environment]\nkind = "docker"\n[environments.docker]\nimage = "x"\n'
    settings = machine.load(project=project, TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE="true")
    assert settings.options == {"image": "x", "host_cwd": str(machine.project)}


@pytest.mark.parametrize(
    "image", ["/", "..", "~/x.sif", "docker-archive:///etc", "oci:///", "docker-daemon:x"]
)
def test_no_directory_of_this_machine_becomes_an_image(machine: Machine, image: str) -> None:
    refused(machine, "environments.apptainer.image", f'"{image}"')


def test_sandbox_first_is_not_left(machine: Machine) -> None:
    machine.user_file.write_text('[approvals]\nmode = "sandbox-first"\n')
    refused(machine, "approvals.mode", '"deny"')


def test_what_is_hidden_adds_up(machine: Machine) -> None:
    user, project = "[redaction]\nvariables = ['A']\n", "[redaction]\nvariables = ['B']\n"
    settings = machine.load(user=user, project=project, HERMETIC_REDACTION_VARIABLES="C")
    assert settings.redaction.variables == ("A", "B", "C")


def test_a_project_trusts_no_project(machine: Machine) -> None:
    with pytest.raises(
        ConfigError, match=r"hermetic\.toml: only your own file may set trusted_projects"
    ):
        machine.load(project=f"trusted_projects = ['{machine.project}']\n[sudo]\npassword = 'x'\n")


def test_a_kind_of_another_distribution_takes_nothing_from_a_project() -> None:
    assert rule_of("environments.elsewhere.lease") is None
    assert rule_of("terminal.new_setting") is None


def test_a_trusted_project_sets_all(machine: Machine) -> None:
    machine.user_file.write_text(
        f"trusted_projects = ['{machine.project}']\n[terminal]\ntimeout = 5\n"
    )
    settings = machine.load(project="[terminal]\ntimeout = 500\n[environment]\ncwd = '/'\n")
    assert (settings.terminal.timeout, settings.options) == (500, {"cwd": "/"})
    assert msgspec.structs.asdict(settings)["sources"] == (
        str(machine.user_file),
        f"{machine.project}/hermetic.toml",
    )

"""Settings from files and variables: which one wins, what is refused, and where a mistake stands."""

import os
import time
from pathlib import Path

import pytest

import hermetic
from hermetic.config import Settings, load
from hermetic.config.files import read
from hermetic.config.settings import SECTIONS
from hermetic.config.values import DEFAULT_IMAGE
from hermetic.config.variables import ORIGINAL, original_settings
from hermetic.contract.errors import ConfigError
from hermetic.environments import catalog
from tests.programs import need_root


class Machine:
    """A home with a user's file, and a repository with a project's."""

    def __init__(self, base: Path) -> None:
        self.home = base / "me"
        self.project = base / "app"
        (self.project / "src").mkdir(parents=True)
        (self.project / ".git").mkdir()
        self.user_file = self.home / ".config" / "hermetic" / "config.toml"
        self.user_file.parent.mkdir(parents=True)

    def load(
        self, *, user: str = "", project: str = "", where: str = ".", **variables: str
    ) -> Settings:
        """The settings with these files and variables."""
        if user:
            self.user_file.write_text(user)
        if project:
            (self.project / "hermetic.toml").write_text(project)
        return load(str(self.project / where), environ={"HOME": str(self.home), **variables})


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_anything_everything_has_its_default(machine: Machine) -> None:
    settings = machine.load()
    assert settings == Settings()
    assert (
        settings.environment.kind,
        settings.terminal.timeout,
        settings.terminal.longest_timeout,
    ) == (
        "local",
        180,
        600,
    )
    assert settings.redaction.enabled
    assert settings.sudo.password is None


def test_the_nearer_and_the_more_deliberate_wins(machine: Machine) -> None:
    user, project = "[terminal]\ntimeout = 5\n", "[terminal]\ntimeout = 2\n"
    assert machine.load(user=user).terminal.timeout == 5
    assert machine.load(user=user, project=project).terminal.timeout == 2
    assert machine.load(TERMINAL_TIMEOUT="3").terminal.timeout == 3
    settings = machine.load(TERMINAL_TIMEOUT="3", HERMETIC_TERMINAL_TIMEOUT="4")
    assert settings.terminal.timeout == 4
    assert settings.places == {"terminal.timeout": "HERMETIC_TERMINAL_TIMEOUT"}


def test_the_projects_file_is_found_up_to_the_top_of_the_repository(machine: Machine) -> None:
    (machine.project.parent / "hermetic.toml").write_text("[terminal]\ntimeout = 9\n")
    assert machine.load(where="src").terminal.timeout == 180
    settings = machine.load(project="[terminal]\ntimeout = 2\n", where="src")
    assert settings.terminal.timeout == 2
    assert settings.places["terminal.timeout"] == f"{machine.project}/hermetic.toml:2"
    (machine.project / "src" / "hermetic.toml").write_text("[terminal]\ntimeout = 3\n")
    assert machine.load(where="src").terminal.timeout == 3


def test_the_users_file_may_be_named(machine: Machine, tmp_path: Path) -> None:
    named = tmp_path / "mine.toml"
    named.write_text('[environment]\nkind = "sandbox"\n')
    assert machine.load(HERMETIC_CONFIG=str(named)).environment.kind == "sandbox"
    with pytest.raises(ConfigError, match="there is no file"):
        machine.load(HERMETIC_CONFIG=str(tmp_path / "missing.toml"))


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("True", True),
        ("False", False),
        ("false", False),
        ("0", False),
        ("no", False),
        ("lab", "lab"),
    ],
)
def test_yes_and_no_are_understood_where_a_name_is_possible_too(
    machine: Machine, text: str, network: object
) -> None:
    # Hermes Agent writes its own settings as Python does.
    settings = machine.load(
        TERMINAL_ENV="docker", TERMINAL_DOCKER_IMAGE="x:1", TERMINAL_DOCKER_NETWORK=text
    )
    assert settings.options["network"] == network
    if text in ("True", "False"):
        ours = machine.load(
            HERMETIC_ENVIRONMENT="docker", HERMETIC_DOCKER_IMAGE="x:1", HERMETIC_DOCKER_NETWORK=text
        )
        assert ours.options["network"] is network


def test_a_kind_gets_its_own_options(machine: Machine) -> None:
    docker = '[environments.docker]\nimage = "x:1"\ncpu = 2\n'
    user = f'[environment]\nkind = "docker"\nlease = 60\n{docker}[environments.ssh]\nhost = "h"\n'
    settings = machine.load(
        user=user, HERMETIC_DOCKER_NETWORK="false", HERMETIC_DOCKER_VOLUMES="a:/a, b:/b"
    )
    assert settings.environment.kind == "docker"
    assert settings.options == {
        "lease": 60,
        "image": "x:1",
        "cpu": 2.0,
        "network": False,
        "volumes": ("a:/a", "b:/b"),
    }
    catalog.find("docker")(settings.options)  # the backend takes them


def test_an_environment_opens_with_them(machine: Machine, tmp_path: Path) -> None:
    settings = machine.load(
        user=f'[environment]\ncwd = "{tmp_path}"\n[environments.local]\nenv = {{ A = "1" }}\n'
    )
    with hermetic.blocking.open(settings.environment.kind, **settings.options) as env:
        assert env.run("echo $PWD $A").output == f"{tmp_path} 1\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[terminl]\ntimeout = 1",
            ":1: no section 'terminl'; did you mean 'terminal'? Valid: approvals, code_exec",
        ),
        (
            "\n[terminal]\n\ntimout = 1",
            ":4: no setting 'timout' in [terminal]; did you mean 'timeout'? Valid: k",
        ),
        (
            "[terminal]\ntimeout = 'soon'",
            ":2: terminal.timeout cannot be 'soon': Expected `float`, got `str`",
        ),
        ("[terminal]\ntimeout = 0", ":2: terminal.timeout cannot be 0: Expected `float` > 0.0"),
        ("terminal.output_characters = 5", ":1: terminal.output_characters cannot be 5"),
        (
            'approvals.mode = "sandbox-frist"',
            ":1: approvals.mode cannot be 'sandbox-frist': Invalid enum value 'sandbox-frist'; "
            "use one of allow, ask, deny, sandbox-first",
        ),
        ("terminal = 5", ":1: terminal must be a table: [terminal]"),
        (
            "[environment]\nkind = 'dokcer'",
            ":2: unknown environment kind 'dokcer'; did you mean 'docker'? Valid: ",
        ),
        ("[environments.dokcer]\nimage = 'x'", ":2: unknown environment kind 'dokcer'"),
        (
            "[environments.docker]\nimag = 'x'",
            ":2: 'docker' has no option 'imag'; did you mean 'image'? Valid: cpu",
        ),
        (
            "[environments]\ndocker = 1",
            ":2: the options of a kind are a table: [environments.docker]",
        ),
        (
            "[environment]\nkind = 'docker'\n[environments.docker]\ncpu = 'x'",
            ":4: environments.docker.cpu cannot be",
        ),
        ("[terminal\ntimeout = 1", ":1: this is no TOML: Expected ']'"),
        ("trusted_projects = 'x'", ":1: trusted_projects must be a list of directories"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line_and_what_would_be_right(
    machine: Machine, text: str, says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        machine.load(user=text)
    assert str(caught.value).startswith(f"{machine.user_file}{says}")


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        (
            "HERMETIC_TERMINAL_TIMOUT",
            "1",
            "HERMETIC_TERMINAL_TIMOUT: terminal has no setting 'timout'; did you mean",
        ),
        (
            "HERMETIC_APPROVAL_MODE",
            "deny",
            "HERMETIC_APPROVAL_MODE is no setting; did you mean HERMETIC_APPROVALS_MODE?",
        ),
        (
            "HERMETIC_ENVIROMENT",
            "docker",
            "HERMETIC_ENVIROMENT is no setting; did you mean HERMETIC_ENVIRONMENT?",
        ),
        (
            "HERMETIC_DOCKER_IMAG",
            "x",
            "HERMETIC_DOCKER_IMAG: 'docker' has no option 'imag'; did you mean 'image'?",
        ),
        (
            "HERMETIC_TERMINAL_TIMEOUT",
            "soon",
            "HERMETIC_TERMINAL_TIMEOUT: terminal.timeout cannot be 'soon'",
        ),
        (
            "HERMETIC_ENVIRONMENT",
            "dokcer",
            "HERMETIC_ENVIRONMENT: unknown environment kind 'dokcer'; did you mean",
        ),
        (
            "HERMETIC_REDACTION_ENABLED",
            "maybe",
            "HERMETIC_REDACTION_ENABLED: redaction.enabled cannot be 'maybe'",
        ),
        (
            "TERMINAL_ENV",
            "cloud",
            "TERMINAL_ENV: unknown environment kind 'cloud'; Valid: apptainer, daytona, docker",
        ),
        ("TERMINAL_TIMEOUT", "soon", "TERMINAL_TIMEOUT: terminal.timeout cannot be 'soon'"),
        ("TERMINAL_SSH_PORT", "x", "TERMINAL_SSH_PORT: environments.ssh.port cannot be 'x'"),
        (
            "TERMINAL_DOCKER_ENV",
            "[1",
            "TERMINAL_DOCKER_ENV: environments.docker.env cannot be '[1'",
        ),
    ],
)
def test_a_mistake_in_a_variable_is_told(
    machine: Machine, variable: str, value: str, says: str
) -> None:
    kind = {"TERMINAL_SSH_PORT": "ssh", "TERMINAL_DOCKER_ENV": "docker"}.get(variable)
    with pytest.raises(ConfigError) as caught:
        machine.load(**{variable: value, **({"TERMINAL_ENV": kind} if kind else {})})
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TERMINAL_DOCKER_ENV", "{"),
        ("TERMINAL_DOCKER_VOLUMES", "["),
        ("TERMINAL_SSH_PORT", "x"),
        ("TERMINAL_CONTAINER_CPU", "many"),
    ],
)
def test_a_mistake_about_a_kind_that_is_not_used_is_none(
    machine: Machine, variable: str, value: str
) -> None:
    assert machine.load(TERMINAL_ENV="local", **{variable: value}).environment.kind == "local"


def test_variables_of_other_parts_are_let_be(machine: Machine) -> None:
    others = {
        "HERMETIC_RUNTIME_DIR": "/x",
        "HERMETIC_DOCKER_BINARY": "/x",
        "HERMETIC_FULL": "1",
        "HERMETIC_COMMAND": "c",
    }
    assert machine.load(**others) == Settings()


@pytest.mark.parametrize(
    ("text", "value"), [("yes", True), ("1", True), ("TRUE", True), ("off", False), ("0", False)]
)
def test_yes_and_no_have_several_spellings(machine: Machine, text: str, value: bool) -> None:
    assert machine.load(HERMETIC_REDACTION_ENABLED=text).redaction.enabled is value


SPELLED = {
    "kind": "sandbox",
    "enabled": "no",
    "variables": "A,B",
    "mode": "deny",
    "answers": "queue",
    "nobody": "allow",
    "wait": "no",
    "always_days": "7",
    "passthrough": "A",
    "isolated": "yes",
    "warm": "no",
    "home": "profile",
    "across_processes": "no",
    "credential_files": "a,b",
    "record": "all",
    "search_backend": "off",
    "extract_backend": "off",
    "programs": '[{"x": {"reads": "f"}}]',
    "rules": '[{"decision": "ask", "command": ["x"], "matches": ["x 1"]}]',
}


@pytest.mark.parametrize("variable", ["SUDO_PASSWORD", "HERMETIC_SUDO_PASSWORD"])
@pytest.mark.parametrize("text", ["null", "true", "123", "[1]", "a,b", " x "])
def test_text_stays_text(machine: Machine, variable: str, text: str) -> None:
    assert machine.load(**{variable: text}).sudo.password == text


def test_every_setting_can_be_a_variable(machine: Machine) -> None:
    for section, shape in SECTIONS.items():
        for name in shape.__struct_fields__:
            text = SPELLED.get(name, "5000")
            settings = machine.load(**{f"HERMETIC_{section}_{name}".upper(): text})
            assert getattr(getattr(settings, section), name) != getattr(shape(), name), name


@pytest.mark.parametrize(("text", "hosts"), [("true", ("*",)), ("0", ()), ("", ())])
def test_private_addresses_are_allowed_as_in_the_original(
    machine: Machine, text: str, hosts: tuple[str, ...]
) -> None:
    assert machine.load(HERMES_ALLOW_PRIVATE_URLS=text).web.private_hosts == hosts


def test_the_password_of_a_proxy_is_a_secret(machine: Machine) -> None:
    settings = machine.load(HERMETIC_WEB_PROXY="http://me:s3cret-of-9@proxy.example:3128")
    assert "s3cret-of-9" in [secret.value for secret in settings.known_secrets({})]
    assert "s3cret-of-9" not in repr(settings.web)


class TestAProject:
    """A project's file comes with a checkout."""

    @pytest.mark.parametrize(
        "text",
        [
            "[sudo]\npassword = 'x'",
            "[code_execution]\npassthrough = ['AWS_SECRET_ACCESS_KEY']",
            "[redaction]\nenabled = false",
            "[environments.docker]\nvolumes = ['/:/host']",
            "[environments.docker]\nextra_args = ['--privileged']",
            "[environments.docker]\nforward_env = ['AWS_SECRET_ACCESS_KEY']",
            "[environments.docker]\nhost_cwd = '/'",
            "[environments.docker]\nnetwork = true",
            "[environments.sandbox]\nreadable = ['/']",
            "[environments.sandbox]\nworkspace = '/'",
            "[environments.ssh]\nsettings = { ProxyCommand = 'x' }",
            "[environments.ssh]\nconfig = 'x'",
            "[environments.local]\npassthrough = ['TOKEN']",
            "[environments.local]\nhome = 'real'",
            "[environments.docker]\ncredential_files = ['mail.json']",
            "[environment]\ncredential_files = ['mail.json']",
            "[environment]\nprofile = '/'",
            "[environment]\nhome = 'real'",
            "[terminal]\ncredential_files = ['mail.json']",
            "[environments.local]\nenv = { BASH_ENV = 'x' }",
        ],
    )
    def test_cannot_open_the_machine(self, machine: Machine, text: str) -> None:
        with pytest.raises(
            ConfigError, match=r"hermetic\.toml:2: a project cannot set .* trusted_projects = "
        ):
            machine.load(project=text)

    def test_cannot_leave_the_isolation_that_the_user_chose(self, machine: Machine) -> None:
        user, project = "[environment]\nkind = 'docker'\n", "[environment]\nkind = 'local'\n"
        with pytest.raises(
            ConfigError, match=r"hermetic\.toml:2: a project cannot set environment.kind"
        ):
            machine.load(user=user, project=project)
        assert (
            machine.load(user=user, project="[environment]\nkind = 'sandbox'\n").environment.kind
            == "sandbox"
        )

    def test_may_say_what_it_needs(self, machine: Machine) -> None:
        options = "[environments.docker]\nimage = 'x'\nsetup = 'make deps'\nnetwork = false\n"
        settings = machine.load(project=f"[environment]\nkind = 'docker'\n{options}")
        assert settings.options == {"image": "x", "setup": "make deps", "network": False}

    def test_may_say_more_when_the_user_trusts_it(self, machine: Machine) -> None:
        user = f"trusted_projects = ['{machine.project}']\n"
        settings = machine.load(
            user=user, project="[environments.local]\npassthrough = ['TOKEN']\n"
        )
        assert settings.options == {"passthrough": ("TOKEN",)}

    def test_of_another_user_is_refused(self, machine: Machine) -> None:
        need_root("only root can give a file away")
        file = machine.project / "hermetic.toml"
        file.write_text("[terminal]\ntimeout = 2\n")
        os.chown(file, 12345, 12345)
        with pytest.raises(ConfigError, match="belongs to another user; look at what it says"):
            machine.load()


RULE = "[[approvals.rules]]\ndecision = '{}'\ncommand = ['git', 'push']\nmatches = ['git push']\n"


class TestApprovals:
    def test_what_users_and_projects_deny_and_rule_adds_up(self, machine: Machine) -> None:
        settings = machine.load(
            user="[approvals]\nanswers = 'queue'\ndeny = ['npm publish*']\n" + RULE.format("allow"),
            project="[approvals]\ndeny = ['rm *']\n" + RULE.format("ask"),
        )
        assert settings.approvals.answers == "queue"
        assert settings.approvals.deny == ("npm publish*", "rm *")
        assert [rule.decision for rule in settings.approvals.rules] == ["allow", "ask"]

    @pytest.mark.parametrize(
        "text",
        [
            "mode = 'allow'",
            "mode = 'ask'",
            "nobody = 'allow'",
            "file = '/tmp/x'",
            "timeout = 1",
            "answers = 'queue'",
        ],
    )
    def test_a_project_only_tightens(self, machine: Machine, text: str) -> None:
        with pytest.raises(ConfigError, match="a project cannot set"):
            machine.load(project=f"[approvals]\n{text}\n")
        with pytest.raises(ConfigError, match="a project cannot set"):
            machine.load(project=RULE.format("allow"))
        assert machine.load(project="[approvals]\nmode = 'deny'\n").approvals.mode == "deny"

    def test_variables_add_to_what_is_denied(self, machine: Machine) -> None:
        variables = {"HERMETIC_APPROVALS_DENY": "git push*, rm *"}
        settings = machine.load(user="[approvals]\ndeny = ['x']\n", **variables)
        assert settings.approvals.deny == ("x", "git push*", "rm *")

    @pytest.mark.parametrize(
        ("variable", "text", "name", "value"),
        [
            ("HERMES_YOLO_MODE", "1", "mode", "allow"),
            ("HERMES_INTERACTIVE", "1", "answers", "terminal"),
            ("HERMES_GATEWAY_SESSION", "1", "answers", "queue"),
            ("HERMES_EXEC_ASK", "true", "answers", "queue"),
        ],
    )
    def test_the_variables_of_the_original_are_understood(
        self, machine: Machine, variable: str, text: str, name: str, value: str
    ) -> None:
        settings = machine.load(**{variable: text})
        assert getattr(settings.approvals, name) == value

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("[approvals]\nmode = 'yolo'\n", "approvals.mode cannot be 'yolo'"),
            ("[approvals]\nmod = 'ask'\n", "no setting 'mod'"),
            ("[approvals]\ndeny = ['']\n", "empty text"),
            ("[[approvals.rules]]\ndecision = 'allow'\n", "one of command, path and network"),
            ("[[approvals.rules]]\ndecision = 'maybe'\n", "approvals.rules cannot be"),
            ("[[approvals.rules]]\ndecision = 'ask'\ncommand = ['x']\n", "needs matches"),
            (
                "[[approvals.rules]]\ndecision = 'ask'\ncommand = ['x']\nmatches = ['y']\n",
                "does not apply to 'y'",
            ),
            (
                "[[approvals.rules]]\ndecision = 'ask'\ncommand = ['x']\nmatches = ['x']\nspares = ['x 1']\n",
                "it spares",
            ),
            (
                "[[approvals.rules]]\ndecision = 'ask'\ncommand = ['x']\nmatch = ['x']\n",
                "unknown field",
            ),
        ],
    )
    def test_what_is_wrong_is_refused_with_its_reason(
        self, machine: Machine, text: str, problem: str
    ) -> None:
        with pytest.raises(ConfigError, match=problem):
            machine.load(user=text)

    @pytest.mark.parametrize("mode", [0o666, 0o602, 0o622 | 0o002])
    def test_a_file_that_anybody_can_write_is_refused(self, machine: Machine, mode: int) -> None:
        machine.load(user="[approvals]\nmode = 'deny'\n")
        machine.user_file.chmod(mode)
        with pytest.raises(ConfigError, match="can be written by anybody"):
            machine.load()


def test_a_profile_its_home_and_its_files_reach_the_kinds_that_have_them(machine: Machine) -> None:
    user = '[environment]\nprofile = "work"\nhome = "profile"\ncredential_files = ["mail.json"]\n'
    assert machine.load(user=user).options == {"profile": "work", "home": "profile"}
    shown = machine.load(HERMETIC_ENVIRONMENT="sandbox")
    assert shown.options == {"profile": "work", "credential_files": ("mail.json",)}
    assert shown.notes == ()
    assert machine.load(HERMETIC_ENVIRONMENT_PROFILE="play").options["profile"] == "play"


def test_credential_files_may_have_the_originals_name(machine: Machine) -> None:
    settings = machine.load(
        user='[environment]\nkind = "sandbox"\n[terminal]\ncredential_files = ["mail.json"]\n'
    )
    assert settings.options == {"credential_files": ("mail.json",)}
    assert settings.environment.credential_files == ("mail.json",)


def test_a_place_with_a_home_of_its_own_never_has_the_real_one(machine: Machine) -> None:
    settings = machine.load(user='[environment]\nkind = "sandbox"\nhome = "real"\n')
    assert settings.options == {}
    assert ["environment.home = real was left out" in note for note in settings.notes] == [True]


def test_a_password_that_others_can_read_is_refused_and_none_is_shown(machine: Machine) -> None:
    text = "[sudo]\npassword = 'hunter22'\n"
    machine.user_file.write_text(text)
    machine.user_file.chmod(0o644)
    with pytest.raises(ConfigError, match="run chmod 600") as caught:
        machine.load()
    machine.user_file.chmod(0o600)
    settings = machine.load()
    assert settings.sudo.password == "hunter22"
    assert "hunter22" not in f"{settings!r} {caught.value}"


def test_what_models_may_not_see_is_gathered(machine: Machine) -> None:
    environ = {"GITHUB_TOKEN": "t0k3n-value", "CUSTOM": "s3cr3t-value", "HOME": "/h"}
    settings = machine.load(
        SUDO_PASSWORD="hunter22",
        HERMETIC_REDACTION_VARIABLES="CUSTOM",
        HERMETIC_LOCAL_ENV='{"API_KEY": "k3y-of-mine"}',
    )
    found = {secret.name: secret.value for secret in settings.known_secrets(environ)}
    assert found == {
        "sudo password": "hunter22",
        "CUSTOM": "s3cr3t-value",
        "API_KEY": "k3y-of-mine",
        "GITHUB_TOKEN": "t0k3n-value",
    }


OF_KINDS = [
    *(
        name
        for name in ORIGINAL
        if all(one.startswith("environments.") for one in original_settings(name))
    ),
    "TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE",
    "TERMINAL_DOCKER_RUN_AS_HOST_USER",
    "HERMETIC_DOCKER_ENV",
]


class TestTheOriginalsVariables:
    """They mean what they meant."""

    def test_choose_the_kind_with_its_image(self, machine: Machine) -> None:
        assert machine.load(TERMINAL_ENV="Docker").options == {"image": DEFAULT_IMAGE}
        settings = machine.load(TERMINAL_ENV="docker", TERMINAL_DOCKER_IMAGE="debian:12")
        assert (settings.environment.kind, settings.options) == ("docker", {"image": "debian:12"})
        settings = machine.load(TERMINAL_ENV="singularity")
        assert (settings.environment.kind, settings.options) == (
            "apptainer",
            {"image": f"docker://{DEFAULT_IMAGE}"},
        )
        assert machine.load(
            TERMINAL_ENV="singularity", TERMINAL_SINGULARITY_IMAGE="a.sif"
        ).options == {"image": "a.sif"}

    def test_choose_the_directory(self, machine: Machine) -> None:
        assert machine.load(TERMINAL_CWD="/srv").options == {"cwd": "/srv"}
        # its own default is ~
        assert machine.load(TERMINAL_ENV="ssh", TERMINAL_SSH_HOST="h").options == {"host": "h"}

    @pytest.mark.parametrize("path", ["/home/me/app", "/" + "Users/me", "C:\\app", "C:/app"])
    def test_do_not_take_a_home_of_this_machine_elsewhere(
        self, machine: Machine, path: str
    ) -> None:
        settings = machine.load(TERMINAL_ENV="docker", TERMINAL_CWD=path)
        assert "cwd" not in settings.options
        assert settings.notes == (
            f"TERMINAL_CWD={path} was left out: it is a directory of this machine, and docker has its own",
        )
        assert machine.load(TERMINAL_CWD=path).options == {"cwd": path}

    def test_set_times(self, machine: Machine) -> None:
        settings = machine.load(
            TERMINAL_TIMEOUT="90",
            TERMINAL_LIFETIME_SECONDS="600",
            TERMINAL_MAX_FOREGROUND_TIMEOUT="1200",
        )
        assert (settings.terminal.timeout, settings.terminal.longest_timeout) == (90, 1200)
        assert settings.options == {"lease": 600}

    def test_reach_a_machine_by_ssh(self, machine: Machine) -> None:
        settings = machine.load(
            TERMINAL_ENV="ssh",
            TERMINAL_SSH_HOST="h",
            TERMINAL_SSH_USER="u",
            TERMINAL_SSH_PORT="2222",
            TERMINAL_SSH_KEY="/k",
        )
        assert settings.options == {"host": "h", "user": "u", "port": 2222, "key": "/k"}

    def test_shape_a_container(self, machine: Machine) -> None:
        settings = machine.load(
            TERMINAL_ENV="docker",
            TERMINAL_CONTAINER_CPU="2",
            TERMINAL_CONTAINER_MEMORY="512",
            TERMINAL_CONTAINER_DISK="1024",
            TERMINAL_DOCKER_PERSIST_ACROSS_PROCESSES="false",
            TERMINAL_CONTAINER_PERSISTENT="true",
            TERMINAL_DOCKER_VOLUMES='["/a:/a"]',
            TERMINAL_DOCKER_ENV='{"A": "1"}',
            TERMINAL_DOCKER_FORWARD_ENV='["B"]',
            TERMINAL_DOCKER_EXTRA_ARGS='["--dns=1.1.1.1"]',
            TERMINAL_DOCKER_NETWORK="false",
            TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE="true",
            TERMINAL_DOCKER_RUN_AS_HOST_USER="1",
        )
        assert settings.options == {
            "image": DEFAULT_IMAGE,
            "cpu": 2.0,
            "memory_bytes": 512 << 20,
            "disk_bytes": 1 << 30,
            "persistent": True,
            "volumes": ("/a:/a",),
            "env": {"A": "1"},
            "forward_env": ("B",),
            "extra_args": ("--dns=1.1.1.1",),
            "network": False,
            "host_cwd": str(machine.project),
            "user": f"{os.geteuid()}:{os.getegid()}",
        }
        assert not settings.environment.across_processes
        catalog.find("docker")(settings.options)

    def test_switch_redaction_and_give_sudo_its_password(self, machine: Machine) -> None:
        assert not machine.load(HERMES_REDACT_SECRETS="false").redaction.enabled
        assert machine.load(SUDO_PASSWORD="").sudo.password == ""
        assert machine.load().sudo.password is None

    @pytest.mark.parametrize("variable", OF_KINDS)
    def test_one_for_a_kind_that_is_not_chosen_is_no_mistake(
        self, machine: Machine, variable: str
    ) -> None:
        settings = machine.load(TERMINAL_ENV="local", **{variable: "{"})
        assert (settings.environment.kind, settings.options) == ("local", {})

    @pytest.mark.parametrize("text", ["false", "0", "No"])
    def test_a_switch_that_is_off_leaves_the_users_file_alone(
        self, machine: Machine, text: str
    ) -> None:
        user = "[environments.docker]\nuser = 'me'\n"
        variables = {"TERMINAL_ENV": "docker", "TERMINAL_DOCKER_RUN_AS_HOST_USER": text}
        assert machine.load(user=user, **variables).options["user"] == "me"
        with pytest.raises(
            ConfigError, match=r"TERMINAL_DOCKER_RUN_AS_HOST_USER: .* cannot be 'maybe'"
        ):
            machine.load(TERMINAL_ENV="docker", TERMINAL_DOCKER_RUN_AS_HOST_USER="maybe")

    def test_an_empty_one_counts_as_unset(self, machine: Machine) -> None:
        empty = {
            "TERMINAL_ENV": "",
            "TERMINAL_TIMEOUT": " ",
            "TERMINAL_DOCKER_RUN_AS_HOST_USER": "",
        }
        assert machine.load(**empty) == Settings()


@pytest.mark.parametrize(
    "text",
    [
        "a=" + "[" * 20_000 + "]" * 20_000,
        "a=" + "{b=" * 20_000 + "1" + "}" * 20_000,
        "[environment]\nlease=" + "9" * 100_000,
        "a." * 500_000 + "b=1",
        "[" + "a . " * 200_000 + "b]",
        "'a'." * 250_000 + "b=1",
        "a" * 1_000_000,
    ],
    ids=["lists", "tables", "digits", "parts", "heading", "quoted", "letters"],
)
def test_a_file_that_a_parser_would_choke_on_is_refused_at_once(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hermetic.toml"
    path.write_text(text)
    path.chmod(0o600)
    began = time.process_time()
    with pytest.raises(ConfigError, match=r"hermetic\.toml"):
        read(path)
    assert time.process_time() - began < 3

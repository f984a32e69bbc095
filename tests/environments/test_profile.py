"""Profiles: the home of commands, and which of the user's files a place is shown, and never others."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.contract.errors import ConfigError
from hermetic.environments.catalog import find
from hermetic.environments.containers.arguments import data_root, spec_hash
from hermetic.environments.containers.options import read_container_options
from hermetic.environments.profile import (
    CACHES,
    SelectedProfile,
    copy_without_links,
    name_of,
    resolve_mounts,
    select_profile,
)
from tests.environments.apptainers import Apptainers
from tests.environments.engines import PODMAN, ask, containers, need_engine
from tests.environments.sshd import running
from tests.programs import need, need_variable

SECRET = "only-this-service"
KINDS = ("docker", PODMAN, "sandbox", "apptainer")  # which show files as they are; ssh sends copies


class Profile:
    """A user's settings with a token, skills that have links in them, and a cache."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for folder in ("tokens", "skills/mail", *CACHES[:2]):
            (directory / folder).mkdir(parents=True)
        (directory / "config.toml").touch()
        self.write("tokens/mail.json", SECRET)
        self.write("skills/mail/SKILL.md", "how to")
        self.write(f"{CACHES[0]}/page.txt", "cached")
        (directory / "skills/inside").symlink_to("mail/SKILL.md")
        (directory / "skills/out").symlink_to("/etc/passwd")
        (directory / "skills/mail/up").symlink_to("../../tokens/mail.json")

    def write(self, path: str, text: str) -> None:
        """Makes a file that is the user's alone."""
        (self.directory / path).write_text(text)
        (self.directory / path).chmod(0o600)


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """The default profile of this test's user."""
    monkeypatch.setenv("HERMETIC_CONFIG", str(tmp_path / "settings" / "config.toml"))
    monkeypatch.setenv("HERMETIC_DATA_DIR", str(tmp_path / "data"))
    return Profile(tmp_path / "settings")


@asynccontextmanager
async def place(kind: str, at: Path, **options: Any) -> AsyncIterator[hermetic.Environment]:
    """An environment with files of its own."""
    with pytest.MonkeyPatch.context() as patch:
        if kind == "sandbox":
            need("bwrap")
            (at / "workspace").mkdir(exist_ok=True)
            options["workspace"] = at / "workspace"
        elif kind == "apptainer":
            (at / "scratch").mkdir(exist_ok=True)
            options["image"] = Apptainers(at / "scratch", patch).image
        else:
            need_engine(kind)
            options["image"] = need_variable("IMAGE_BASE")
        async with hermetic.open(kind, login=False, **options) as env:
            yield env


@pytest.mark.parametrize("kind", KINDS)
async def test_its_files_are_shown_read_only_and_what_is_missing_is_told(
    kind: str, profile: Profile, tmp_path: Path
) -> None:
    async with place(
        kind, tmp_path, credential_files=["tokens/mail.json", "tokens/later.json"]
    ) as env:
        seen = await env.run(
            'cd ~/.hermetic; pwd; echo "$HERMETIC_PROFILE"; find . -type f -o -type l | sort'
        )
        where, told, *found = seen.output.splitlines()
        assert where == told
        assert found == [
            f"./{CACHES[0]}/page.txt",
            "./skills/inside",
            "./skills/mail/SKILL.md",
            "./tokens/mail.json",
        ]
        read = await env.run("cat tokens/mail.json skills/inside")
        assert read.output == f"{SECRET}how to"
        for attempt in (
            "echo x >>tokens/mail.json",
            "rm -f tokens/mail.json",
            f"touch skills/x {CACHES[0]}/x",
        ):
            assert (await env.run(attempt)).exit_code != 0, attempt
        assert [note for note in env.isolation.notes if "tokens/later.json is not shown" in note]
        assert [note for note in env.isolation.notes if "can read these credential files" in note]
    assert (profile.directory / "tokens/mail.json").read_text() == SECRET


async def test_over_ssh_copies_are_sent_again_when_they_change_and_never_come_back(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMETIC_FORCE_SYNC", "1")
    with running(tmp_path / "sshd") as sshd:
        there = sshd.home / ".hermetic"
        files = ["tokens/mail.json", "tokens/later.json"]
        async with hermetic.open("ssh", **sshd.options, credential_files=files) as env:
            read = await env.run(
                "cat ~/.hermetic/tokens/mail.json ~/.hermetic/skills/mail/SKILL.md"
            )
            assert read.output == f"{SECRET}how to"
            assert (there / "tokens/mail.json").stat().st_mode & 0o777 == 0o600
            assert not [path for path in there.rglob("*") if path.is_symlink()]
            assert [note for note in env.isolation.notes if "tokens/later.json is not sent" in note]
            profile.write("tokens/later.json", "now")
            changed = await env.run(
                "cat ~/.hermetic/tokens/later.json; echo mine >~/.hermetic/tokens/mail.json"
            )
            assert changed.output == "now"
        assert (profile.directory / "tokens/mail.json").read_text() == SECRET


@pytest.mark.parametrize("kind", KINDS)
async def test_a_living_task_is_not_handed_out_with_other_files(
    kind: str, profile: Profile, tmp_path: Path
) -> None:
    profile.write("tokens/other.json", "")
    async with place(kind, tmp_path, task="same", credential_files=["tokens/mail.json"]) as env:
        try:
            for others in ({"credential_files": ["tokens/other.json"]}, {"profile": "work"}, {}):
                with pytest.raises(
                    ConfigError, match=r"lives with other options: (credential_files|profile)"
                ):
                    async with place(kind, tmp_path, task="same", **others):
                        pass
            async with place(
                kind, tmp_path, task="same", credential_files=["tokens/mail.json"]
            ) as again:
                assert again.id == env.id
        finally:
            await env.close(remove=True)


@pytest.mark.parametrize("kind", ["docker", PODMAN])
async def test_the_files_are_part_of_what_a_container_is(
    kind: str, profile: Profile, tmp_path: Path
) -> None:
    async with place(kind, tmp_path, credential_files=["tokens/mail.json"]) as env:
        (name,) = containers(kind, f"hermetic.id={env.id}")
        label = ask(kind, ["inspect", "--format", '{{index .Config.Labels "hermetic.spec"}}', name])
        given = {"image": need_variable("IMAGE_BASE"), "credential_files": ["tokens/mail.json"]}
        assert label == spec_hash(read_container_options(kind, given))
        assert label != spec_hash(read_container_options(kind, {"image": given["image"]}))


@pytest.mark.parametrize("kind", ["docker", "sandbox", "apptainer", "ssh"])
@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "~/x",
        "../x",
        "tokens/../../x",
        "",
        "config.toml",
        "sub/.env",
        "auth.json",
        "approvals.toml",
        "profiles/work/tokens/mail.json",
    ],
)
def test_what_is_outside_or_opens_everything_is_refused_by_name(
    kind: str, path: str, profile: Profile
) -> None:
    needed = {
        "docker": {"image": "some"},
        "apptainer": {"image": "some.sif"},
        "ssh": {"host": "some"},
    }
    with pytest.raises(ConfigError, match=r"give paths inside the profile|never shown") as refused:
        find(kind)({**needed.get(kind, {}), "credential_files": [path]})
    assert refused.value.setting == "credential_files"


@pytest.mark.parametrize("kind", ["docker", "sandbox"])
@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("/etc/passwd", "leads out of"),
        ("../../outside", "leads out of"),
        ("../config.toml", "never"),
    ],
)
async def test_a_link_that_leads_out_stops_the_start_and_nothing_is_left(
    kind: str, link: str, says: str, profile: Profile, tmp_path: Path
) -> None:
    (tmp_path / "outside").touch()
    (profile.directory / "tokens/link").symlink_to(link)
    with pytest.raises(ConfigError, match=says):
        async with place(kind, tmp_path, credential_files=["tokens/link"]):
            pass


@pytest.mark.parametrize("named", [True, False])
def test_the_settings_by_another_name_are_never_shown(
    named: bool, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not named:
        monkeypatch.delenv("HERMETIC_CONFIG")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        profile.directory = profile.directory.rename(tmp_path / "hermetic")
    os.link(profile.directory / "config.toml", profile.directory / "innocent")
    with pytest.raises(ConfigError, match="never shown"):
        resolve_mounts(select_profile(None, ["innocent"]), tmp_path)


async def test_a_directory_that_cannot_be_listed_does_not_stop_the_start(
    profile: Profile, tmp_path: Path
) -> None:
    (profile.directory / "cache" / "web").symlink_to("/etc")
    (profile.directory / "cache" / "audio").touch()
    async with place("docker", tmp_path, profile="default") as env:
        assert (await env.run("ls ~/.hermetic/cache")).output.split() == ["documents", "images"]
        for name in ("cache/web", "cache/audio"):
            assert [
                note
                for note in env.isolation.notes
                if f"{name} of the profile is not shown" in note
            ]
    shown = resolve_mounts(SelectedProfile(str(tmp_path / "nowhere"), ()), tmp_path)
    assert shown.mounts == ()
    assert [note for note in shown.notes if "does not exist" in note]


def test_a_copy_keeps_only_links_that_stay_inside(tmp_path: Path) -> None:
    source, outside = tmp_path / "source", tmp_path / "outside"
    (source / "deep").mkdir(parents=True)
    outside.mkdir()
    (source / "file").write_text("text")
    (source / "file").chmod(0o755)
    (outside / "back").symlink_to(source / "file")
    leads = {
        "near": "file",
        "deep/up": "../file",
        "folder": "deep",
        "whole": str(source / "file"),
        "out": "../outside",
        "round": "../outside/back",
        "gone": "../../gone",
    }
    for name, target in leads.items():
        (source / name).symlink_to(target)
    os.mkfifo(source / "pipe")
    copy_without_links(str(source), str(tmp_path / "copy"))
    found = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*")}
    assert found == {"file", "deep", "near", "deep/up", "folder"}
    assert (tmp_path / "copy/deep/up").read_text() == "text"
    assert (tmp_path / "copy/file").stat().st_mode & 0o777 == 0o755


async def test_what_outlives_environments_lies_where_the_variables_say(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, originals, users = (str(tmp_path / name) for name in ("own", "originals", "users"))
    for variable, directory in (
        ("XDG_DATA_HOME", users),
        ("TERMINAL_SANDBOX_DIR", originals),
        ("HERMETIC_DATA_DIR", own),
    ):
        monkeypatch.delenv("HERMETIC_DATA_DIR", raising=False)
        monkeypatch.setenv(variable, directory)
        base = f"{directory}/hermetic" if directory == users else directory
        assert str(data_root()) == f"{base}/containers"
        async with hermetic.open("local", profile="work", login=False) as env:
            assert (await env.run("cd; pwd")).output == f"{base}/homes/work\n"


class TestHomes:
    """Where commands on this machine are at home."""

    @pytest.fixture(autouse=True)
    def _settings(self, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", f"{os.environ['HOME']}/.cache")

    @pytest.mark.parametrize(
        ("options", "home"),
        [
            ({}, None),
            ({"home": "real"}, None),
            ({"home": "real", "profile": "work"}, None),
            ({"profile": "work"}, "homes/work"),
            ({"home": "profile", "profile": "work"}, "homes/work"),
            ({"home": "profile"}, "homes/default"),
            ({"profile": "default"}, "homes/default"),
            ({"profile": "work", "env": {"HOME": "/elsewhere"}}, "/elsewhere"),
        ],
    )
    async def test_the_mode_says_which(
        self, options: dict[str, Any], home: str | None, tmp_path: Path
    ) -> None:
        expected = os.environ["HOME"] if home is None else str(tmp_path / "data" / home)
        async with hermetic.open("local", login=False, **options) as env:
            assert (await env.run('printf %s "$HOME"')).output == expected

    async def test_profiles_share_nothing_and_keep_what_is_theirs(self, tmp_path: Path) -> None:
        for name, before in (("work", "none"), ("play", "none"), ("work", "of work")):
            async with hermetic.open("local", profile=name) as env:
                seen = await env.run(
                    f"cat ~/.note || echo none; echo of {name} >~/.note; echo ${{XDG_CACHE_HOME-}}."
                )
                assert seen.output.splitlines()[-2:] == [before, "."]
                assert (await env.run("stat -c %a ~")).output == "700\n"

    async def test_the_login_profile_is_that_of_the_home(self, tmp_path: Path) -> None:
        home = tmp_path / "data" / "homes" / "work"
        home.mkdir(mode=0o700, parents=True)
        (home / ".profile").write_text("export FROM=profile\n")
        async with hermetic.open("local", profile="work") as env:
            assert (
                await env.run("echo $FROM $HERMETIC_PROFILE")
            ).output == f"profile {tmp_path}/settings/profiles/work\n"

    async def test_a_living_task_is_not_handed_out_at_another_home(self) -> None:
        async with hermetic.open("local", task="here", profile="work") as env:
            try:
                others: list[dict[str, Any]] = [
                    {},
                    {"profile": "play"},
                    {"profile": "work", "home": "real"},
                ]
                for options in others:
                    with pytest.raises(ConfigError, match="lives with other options"):
                        await hermetic.open("local", task="here", **options)
                async with hermetic.open(
                    "local", task="here", profile="work", home="profile"
                ) as again:
                    assert again.id == env.id
            finally:
                await env.close(remove=True)

    @pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "a b"])
    async def test_what_is_no_name_is_refused(self, name: str) -> None:
        with pytest.raises(ConfigError, match="is no name"):
            await hermetic.open("local", profile=name)

    async def test_two_directories_of_one_name_have_two_homes(self, tmp_path: Path) -> None:
        homes = set()
        for directory in (tmp_path / "a" / "same", tmp_path / "b" / "same"):
            async with hermetic.open("local", profile=str(directory), login=False) as env:
                homes.add((await env.run('printf %s "$HOME"')).output)
        assert len(homes) == 2

    @pytest.mark.parametrize("kind", ["docker", "sandbox"])
    async def test_other_kinds_never_have_the_real_one(
        self, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "me").mkdir()
        (tmp_path / "me" / "mark").touch()
        monkeypatch.setenv("HOME", str(tmp_path / "me"))
        async with place(kind, tmp_path, profile="default") as env:
            assert (await env.run("ls ~; ls ~/mark")).exit_code != 0
        with pytest.raises(ConfigError, match="no option 'home'"):
            async with place(kind, tmp_path, home="real"):
                pass


def test_a_profile_is_called_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMETIC_CONFIG", str(tmp_path / "config.toml"))
    assert name_of(None) == name_of(select_profile("default", ()).directory) == "default"
    assert name_of(select_profile("work", ()).directory) == "work"
    assert name_of(select_profile("/srv/elsewhere", ()).directory) == "custom"

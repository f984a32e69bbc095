"""What a container is asked for: what cannot be is refused by name, and what the engine is told is
safe.
"""

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hermetic.contract.errors import ConfigError
from hermetic.environments.catalog import find
from hermetic.environments.containers.arguments import ContainerPlan, shared_paths, spec_hash
from hermetic.environments.containers.options import (
    IDENTITY,
    ContainerOptions,
    read_container_options,
    read_volume,
)

MIB = 1 << 20


def options(**given: Any) -> ContainerOptions:
    return read_container_options("docker", {"image": "some", **given})


def words(tmp_path: Path, /, *, without: Sequence[str] = (), **given: Any) -> list[str]:
    """What the engine's client is told."""
    plan = ContainerPlan(options(**given), id="t-0", directory=str(tmp_path), spool=None)
    return plan.arguments("name", without=without, sees_host=True, is_podman=False)


# A message says what to do, or what would fit.
WAY_OUT = r"\bgive |\bwrite |\bchoose |\buse |leave one out|remove it|Valid: |Expected |such as |for example |neither a path"


def values(said: list[str], option: str) -> list[str]:
    return [value for name, value in itertools.pairwise(said) if name == option]


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"imag": "x"}, "imag"),
        ({"image": ""}, "image"),
        ({"image": "--privileged"}, "image"),
        ({"image": "a b"}, "image"),
        ({"volumes": "/a:/b"}, "volumes"),
        ({"volumes": ["/a"]}, "volumes"),
        ({"volumes": ["/a:b"]}, "volumes"),
        ({"volumes": ["/a:/b:rw:ro"]}, "volumes"),
        ({"volumes": ["/a:/b:bogus"]}, "volumes"),
        ({"volumes": [":/b"]}, "volumes"),
        ({"volumes": ["a,b:/b"]}, "volumes"),
        ({"volumes": [5]}, "volumes"),
        ({"volumes": ["/a:/"]}, "volumes"),
        ({"volumes": ["/a:/run/hermetic"]}, "volumes"),
        ({"volumes": ["/a:/run/hermetic/../hermetic/x"]}, "volumes"),
        ({"volumes": ["/a:/b", "/c:/b/"]}, "volumes"),
        ({"network": "host"}, "network"),
        ({"network": "container:other"}, "network"),
        ({"user": "a b"}, "user"),
        ({"user": "-x"}, "user"),
        ({"cwd": "work"}, "cwd"),
        ({"env": {"A-B": "1"}}, "env"),
        ({"env": {"A": ["1"]}}, "env"),
        ({"env": {"A": "x\0y"}}, "env"),
        ({"forward_env": ["A=B"]}, "forward_env"),
        ({"cpu": -1}, "cpu"),
        ({"memory_bytes": -1}, "memory_bytes"),
        ({"memory_bytes": "5g"}, "memory_bytes"),
        ({"pids": 1.5}, "pids"),
        ({"lease": 0}, "lease"),
        ({"extra_args": "--privileged"}, "extra_args"),
        ({"host_cwd": "/"}, "host_cwd"),
        *(
            ({"host_cwd": path}, "host_cwd")
            for path in ("/etc", "/run", "/dev", "/proc", "/proc/1", "/run/x", "/usr")
        ),
        ({"host_cwd": "~"}, "host_cwd"),
        ({"host_cwd": "~/.."}, "host_cwd"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find("docker")({"image": "some", **given})
    assert caught.value.setting == setting
    assert re.search(WAY_OUT, str(caught.value)), str(caught.value)


def test_a_directory_that_leads_to_the_home_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(Path.home())
    with pytest.raises(ConfigError, match="home"):
        options(host_cwd=str(tmp_path / "link"))


NOT_SHARED = "belongs to the system|no command may see"


@pytest.mark.parametrize(
    "path",
    [
        "~/.ssh",
        "~/.ssh/keys",
        "~/.gnupg",
        "~/.config",
        "~/.config/hermetic",
        "~/.config/gh",
        "~/.local",
        "/usr/bin",
        "~/.local/state/hermetic/x",
        "/usr/lib/systemd",
        "/usr/local/bin",
        "/var/spool/cron",
        "/var/lib/docker",
        "/var/lib/docker/volumes",
        "/var/log",
        "/boot/grub",
        "/lib/modules",
        "/root/.ssh",
        "/home/other/.ssh/x",
        "/home/other/.gnupg",
    ],
)
def test_no_part_of_the_system_and_nothing_private_is_shared(path: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=NOT_SHARED) as caught:
        options(host_cwd=path)
    assert caught.value.setting == "host_cwd"
    (tmp_path / "link").symlink_to(Path(path).expanduser())
    with pytest.raises(ConfigError, match=NOT_SHARED):
        options(host_cwd=str(tmp_path / "link"))


def test_the_records_and_settings_of_hermetic_are_not_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMETIC_RUNTIME_DIR", str(tmp_path / "run" / "hermetic"))
    monkeypatch.setenv("HERMETIC_CONFIG", str(tmp_path / "settings" / "config.toml"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for path in (
        "run/hermetic",
        "run/hermetic/env_1",
        "run",
        "settings",
        "settings/profiles",
        ".",
        "cache",
        "cache/hermetic/runtime",
    ):
        with pytest.raises(ConfigError, match="no command may see"):
            options(host_cwd=str(tmp_path / path))
    assert options(host_cwd=str(tmp_path / "project")).host_cwd == str(tmp_path / "project")


def test_a_private_directory_behind_a_link_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "keys" / "ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh").symlink_to(tmp_path / "keys" / "ssh")
    for path in ("keys/ssh", "keys"):
        with pytest.raises(ConfigError, match="no command may see"):
            options(host_cwd=str(tmp_path / path))


@pytest.mark.parametrize(
    "path",
    [
        "~/project",
        "~/src/a",
        "~/.dotfiles",
        "~/.config/nvim",
        "/srv/app",
        "/opt/app",
        "/tmp/a",
        "/var/tmp/a",
        "/var/www/site",
        "/usr/src/app",
        "/home/other/app",
        "/mnt/disk/app",
        "/data",
    ],
)
def test_directories_of_projects_are_shared(path: str) -> None:
    assert options(host_cwd=path).host_cwd == str(Path(path).expanduser())


def test_defaults_are_safe() -> None:
    plain = options()
    assert (plain.cpu, plain.memory_bytes, plain.pids, plain.network) == (1, 5 << 30, 256, True)
    assert (plain.cwd, plain.volumes, plain.user, plain.persistent) == ("/root", (), None, False)
    assert options(cwd="~").cwd == "/root"
    assert options(cwd="~/x/../y").cwd == "/root/y"
    assert options(host_cwd="/opt/project").cwd == "/workspace"


def test_values_become_text_and_names_are_told_once() -> None:
    assert options(env={"B": 1, "A": True, "C": 1.5}).env == {"A": "true", "B": "1", "C": "1.5"}
    assert options(forward_env=[" B ", "A", "B"]).forward_env == ("B", "A")


def test_a_volume_is_read_by_its_parts() -> None:
    assert read_volume("/a:/b:ro") == ("/a", "/b", ("ro",))
    assert read_volume("cache:/b/../c") == ("cache", "/c", ())
    assert read_volume("~/x:/b").source == str(Path.home() / "x")
    assert not read_volume("/a:/b:ro").is_writable
    assert not read_volume("cache:/b").is_path


def test_every_container_is_hardened_and_limited(tmp_path: Path) -> None:
    said = words(tmp_path)
    assert values(said, "--cap-drop") == ["ALL"]
    rights = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]
    assert sorted(values(words(tmp_path, network=False), "--cap-add")) == rights
    # for fences; given up before use
    assert sorted(values(said, "--cap-add")) == sorted([*rights, "NET_ADMIN"])
    assert values(said, "--security-opt") == [
        "no-new-privileges",
        f"seccomp={tmp_path}/seccomp.json",
    ]
    assert values(said, "--pids-limit") == ["256"]
    assert values(said, "--cpus") == ["1"]
    assert values(said, "--memory") == values(said, "--memory-swap") == [str(5 << 30)]
    assert values(said, "--network") == []
    assert values(said, "--log-driver") == ["none"]
    assert "--rm" in said


@pytest.mark.parametrize(
    ("chosen", "fences"),
    [
        ({}, ("metadata", "neighbours")),
        ({"network": "mine"}, ("metadata",)),
        ({"network": False}, ()),
        ({"user": "1000"}, ()),
        ({"volumes": ["/srv/x:/b"]}, ()),
        ({"extra_args": ["--network=host"]}, ()),
        ({"extra_args": ["--net", "host"]}, ()),
        ({"extra_args": ["--privileged"]}, ()),
        ({"user": "root", "extra_args": ["--hostname=x"]}, ("metadata", "neighbours")),
    ],
)
def test_only_root_in_a_network_of_its_own_is_fenced_in(
    tmp_path: Path, chosen: dict[str, Any], fences: tuple[str, ...]
) -> None:
    plan = ContainerPlan(options(**chosen), id="e-1", directory=str(tmp_path), spool=None)
    assert plan.blackholes == fences
    said = plan.arguments("name", without=(), sees_host=True, is_podman=False)
    assert ("NET_ADMIN" in values(said, "--cap-add")) is bool(fences)


def test_limits_can_be_left_out(tmp_path: Path) -> None:
    for said in (
        words(tmp_path, cpu=0, memory_bytes=0, pids=0),
        words(tmp_path, without=("cpu", "memory_bytes", "pids")),
    ):
        assert not {"--cpus", "--memory", "--memory-swap", "--pids-limit"} & set(said)
    assert values(words(tmp_path, network=False), "--network") == ["none"]
    assert values(words(tmp_path, network="mine"), "--network") == ["mine"]


@pytest.mark.parametrize("memory", [64 * MIB, 512 * MIB, 5 << 30])
def test_what_lies_in_memory_fits_into_the_limit(tmp_path: Path, memory: int) -> None:
    said = words(tmp_path, memory_bytes=memory)
    sizes = [int(word.partition("size=")[2].partition(",")[0]) for word in values(said, "--tmpfs")]
    assert sum(sizes) + int(values(said, "--shm-size")[0]) < memory / 2
    assert "exec" in values(said, "--tmpfs")[0].split(",")


def test_who_can_leave_files_on_this_machine_has_no_rights_of_root(tmp_path: Path) -> None:
    reaching: list[dict[str, Any]] = [
        {"volumes": [f"{tmp_path}:/x"]},
        {"host_cwd": str(tmp_path)},
        {"persistent": True},
    ]
    for given in reaching:
        said = words(tmp_path, **given)
        assert values(said, "--user") == [f"{os.geteuid()}:{os.getegid()}"]
        assert values(said, "--cap-add") == []
    for volume in (f"{tmp_path}:/x:ro", "cache:/x"):
        assert values(words(tmp_path, volumes=[volume]), "--user") == []
    assert values(words(tmp_path, user="1000", volumes=[f"{tmp_path}:/x"]), "--user") == ["1000"]


def test_a_workspace_is_known_by_its_whole_path(tmp_path: Path) -> None:
    host = str(tmp_path)
    beside = words(
        tmp_path, host_cwd=host, volumes=["cache:/workspace-x", "other:/workspace/below"]
    )
    assert f"type=bind,source={tmp_path},target=/workspace" in values(beside, "--mount")
    instead = words(tmp_path, host_cwd=host, volumes=["cache:/workspace/"])
    assert f"type=bind,source={tmp_path},target=/workspace" not in values(instead, "--mount")


def test_a_path_with_any_sign_is_one_path(tmp_path: Path) -> None:
    odd = tmp_path / 'a:b,c"d'
    said = words(tmp_path, host_cwd=str(odd))
    quoted = str(odd).replace('"', '""')
    assert f'type=bind,"source={quoted}",target=/workspace' in values(said, "--mount")


def test_what_the_user_adds_comes_last(tmp_path: Path) -> None:
    assert words(tmp_path, extra_args=["--gpus", "all"])[-2:] == ["--gpus", "all"]


def test_no_value_of_a_variable_is_among_the_words(tmp_path: Path) -> None:
    assert not any("hidden" in word for word in words(tmp_path, env={"A": "hidden"}))


def test_the_spec_tells_places_apart() -> None:
    others: dict[str, Any] = {
        "image": "other",
        "cpu": 2,
        "memory_bytes": 1 << 30,
        "pids": 10,
        "disk_bytes": 1,
        "network": False,
        "volumes": ["a:/b"],
        "user": "1000",
        "persistent": True,
        "host_cwd": "/opt/project",
        "extra_args": ["--gpus=all"],
        "credential_files": ["mail.json"],
        "profile": "work",
    }
    assert others.keys() == set(IDENTITY)
    hashes = [spec_hash(options())] + [
        spec_hash(options(**{name: value})) for name, value in others.items()
    ]
    assert len(set(hashes)) == len(hashes)
    assert spec_hash(options(env={"A": "1"}, lease=5)) == spec_hash(options())


def test_isolation_names_what_is_shared_and_what_is_missing(tmp_path: Path) -> None:
    plain = find("docker")({"image": "some", "network": False}).isolation
    assert all(
        (
            plain.separate_files,
            plain.separate_processes,
            plain.separate_user,
            plain.separate_network,
        )
    )
    assert plain.shared_paths == ()
    assert any("disk" in note for note in plain.notes)
    mounted = find("podman")(
        {"image": "some", "volumes": [f"{tmp_path}:/x", "/etc:/y:ro"]}
    ).isolation
    assert mounted.shared_paths == (str(tmp_path),)
    assert not any((mounted.separate_user, mounted.separate_network))
    assert any("network" in note for note in mounted.notes)
    extra = find("docker")({"image": "some", "extra_args": ["--privileged"]}).isolation
    assert any("--privileged" in note for note in extra.notes)


def test_a_link_counts_as_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "root").symlink_to("/")
    (tmp_path / "system").symlink_to("/etc")
    mounted = options(volumes=[f"{tmp_path}/root:/host"])
    assert mounted.volumes == ("/:/host",)
    assert shared_paths(mounted) == ("/",)
    with pytest.raises(ConfigError, match="belongs to the system"):
        options(host_cwd=str(tmp_path / "system"))
    (tmp_path / "a:b").mkdir()
    (tmp_path / "colon").symlink_to(tmp_path / "a:b")
    with pytest.raises(ConfigError, match="colon"):
        options(volumes=[f"{tmp_path}/colon:/x"])

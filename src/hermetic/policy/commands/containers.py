"""Container engines and clusters: what reaches the host, what runs inside, what is destroyed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermetic.policy.call import Call, Judge
from hermetic.policy.destroys import CLOUD_CHANGES, CLOUD_DESTROYS
from hermetic.policy.effects import SECRET_READ, read, write
from hermetic.policy.marks import LOCAL, SECRET, is_known, shown
from hermetic.policy.options import Options, parse_options
from hermetic.policy.paths import is_secret
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .services import SERVICE_STOP

ESCAPE = Rule(
    name="container-reaches-host",
    category="container-escape",
    severity=9,
    effects=("changes shared state",),
    catches=(
        "docker run --privileged x",
        "docker run -v /:/h alpine",
        "docker run -v /var/run/docker.sock:/s x",
        "docker run --pid=host x",
        "docker create -v /etc:/e x",
        "kubectl debug node/w -it --image=busybox",
        "docker plugin install x/y --grant-all-permissions",
        "dockerd -H tcp://0.0.0.0:2375",
        "docker compose -f - up <<< '{services: {x: {image: a, privileged: true}}}'",
    ),
    spares=("docker run --rm -v $PWD:/app node:20 npm test", "docker run -d -p 80:80 nginx", "docker ps"),
)
PRUNE = Rule(
    name="container-prune",
    category="service",
    label="caution",
    severity=3,
    effects=("deletes",),
    catches=("docker image prune -f", "docker rm -f web", "docker compose down", "docker stop db"),
    spares=("docker ps", "docker logs web"),
)
RULES = (ESCAPE, PRUNE)

_REACHES_HOST = re.compile(
    r"""privileged["']?\s*:\s*["']?true|host(PID|IPC|Network)["']?\s*:\s*true|\b(pid|ipc)["']?\s*:\s*["']?host"""
    r"""|[\s"'\[]/(etc|root|home|proc|var/run|run)?/?:/|docker\.sock|path["']?\s*:\s*["']?/(etc|root|proc|var/run)?["'\s}]"""
)
_RUN_SHORT = "aeumhlpvwc"
_RUN_LONG = names(
    """
volume mount env env-file name network net user workdir publish entrypoint label memory cpus device cap-add
cap-drop security-opt pid ipc uts userns cgroupns hostname add-host dns expose gpus group-add ip link log-driver
log-opt platform pull restart runtime shm-size stop-signal sysctl tmpfs ulimit volumes-from cidfile annotation
health-cmd isolation cgroup-parent device-cgroup-rule memory-swap mac-address pids-limit stop-timeout
network-alias attach cpuset-cpus detach-keys file project-name profile rootfs pod authfile bind home overlay pwd
scratch target image container namespace
"""
)
_GLOBAL = (
    "-H --host -c --context --config -l --log-level -f --file -p --project-name --profile "
    "--env-file --project-directory --url --connection --root --identity -n --namespace -a "
    "--address --cluster --kubeconfig"
)


def judge_docker(call: Call) -> str | None:
    """docker, podman, nerdctl and compose."""
    args = list(call.args)
    skip = frozenset(_GLOBAL.split())
    while args and args[0].startswith("-"):
        args = args[2:] if args[0] in skip else args[1:]
    if args[:1] in (["compose"], ["stack"], ["swarm"]) or call.name in ("docker-compose", "podman-compose"):
        rest = args[1:] if args[:1] == ["compose"] else args
        while rest and rest[0].startswith("-"):
            rest = rest[2:] if rest[0] in skip and "=" not in rest[0] else rest[1:]
        return _compose(call, rest, args[:1])
    group = ""
    if args[:1] and args[0] in names(
        """
container image volume network system builder buildx plugin secret config service node pod machine context
manifest trust
"""
    ):
        group = args.pop(0)
    if not args or any(arg == "--help" for arg in args[:2]):
        return None
    verb, rest = args[0], args[1:]
    if verb in ("run", "create") and group in ("", "container"):
        return _run(call, rest)
    if verb in ("exec", "attach") and group in ("", "container"):
        return _exec(call, rest)
    if verb in ("cp",):
        return copy_across(call, rest)
    return _manage(call, group, verb, rest)


def _manage(call: Call, group: str, verb: str, rest: list[str]) -> str | None:
    text = " ".join(rest)
    if group == "plugin" and verb in ("install", "enable", "set", "create", "upgrade"):
        call.report(ESCAPE, "lets a plugin run with all rights on the host")
    elif verb == "service" and re.search(r"\btcp:", text):
        call.report(ESCAPE, "opens the container engine to the network")
    elif (
        (group == "volume" and verb in ("prune", "rm", "remove"))
        or (group == "system" and verb == "prune" and re.search(r"--volumes|-\w*a", text))
        or (group == "system" and verb == "reset")
    ):
        call.report(CLOUD_DESTROYS, "deletes volumes with their data")
    elif group in ("swarm", "service", "stack", "node", "secret", "config") and verb in (
        "leave",
        "rm",
        "remove",
        "demote",
    ):
        call.report(CLOUD_DESTROYS, "takes shared services away")
    elif verb in names(
        """
rm remove stop kill restart pause prune rmi down start unpause update rename
"""
    ):
        if LOCAL in text and verb in ("rm", "remove"):
            call.report(CLOUD_DESTROYS, "stops or deletes many containers")
        elif LOCAL in text:
            call.report(PRUNE, "stops or deletes many containers or images")
        else:
            call.report(PRUNE, f"stops or deletes containers or images: {verb}")
    elif verb in ("push", "login"):
        call.report(CLOUD_CHANGES, "publishes an image")
    elif verb == "export" or verb == "save":
        options = parse_options(rest, "o", ("output",))
        if options.value("o", "output"):
            write(call, options.value("o", "output") or "")
    elif verb in ("build",):
        if re.search(r"--(allow|security)=?\s*(security\.insecure|insecure)|--network[= ]host", text):
            call.report(PRUNE, "builds with extra rights")
        for part in re.findall(r"src=([^,\s]+)", text):
            if is_secret(call.place(part)[0], call.shell):
                call.report(SECRET_READ, f"hands credentials to a build: {shown(part)}")
    return LOCAL + "\n"


def _mounts(options: Options) -> list[tuple[str, bool]]:
    """Host paths that a container gets, and whether read-only."""
    found = [
        (value.split(":")[0], value.endswith(":ro") or ":ro," in value)
        for value in options.values("v", "volume", "B", "bind", "b")
        if ":" in value or value.startswith("/")
    ]
    for value in options.values("mount"):
        fields = dict(field.partition("=")[::2] for field in value.split(","))
        source = fields.get("source") or fields.get("src")
        if source and fields.get("type", "bind") == "bind":
            found.append((source, "readonly" in fields or "ro" in fields))
    return found


def _bound(options: Options) -> list[tuple[str, str]]:
    """Host paths and where a container sees them."""
    pairs = [value.split(":") for value in options.values("v", "volume")]
    for value in options.values("mount"):
        fields = dict(field.partition("=")[::2] for field in value.split(","))
        source, target = (next((fields[key] for key in keys if key in fields), "") for keys in _MOUNT_KEYS)
        if source and fields.get("type", "bind") == "bind":
            pairs.append([source, target, *(("ro",) if "readonly" in fields or "ro" in fields else ())])
    return [(pair[0], pair[1].rstrip("/")) for pair in pairs if len(pair) > 1 and pair[1].rstrip("/")]


_MOUNT_KEYS = (("source", "src"), ("target", "destination", "dst"))
_CHANGES_FILES = names("rm rmdir unlink shred mv cp tee truncate dd find touch ln install sed chmod chown")


def _changes(words: list[str]) -> Iterator[list[str]]:
    """The programs among these words, or in a shell's text, that change files."""
    if words[0].rsplit("/", 1)[-1] in ("sh", "bash", "ash", "dash") and "-c" in words[1:-1]:
        for text in re.split(r"&&|\|\||[;|&\n]", words[words.index("-c") + 1]):
            inner = text.split()
            if inner and inner[0] in _CHANGES_FILES:
                yield ["sh", "-c", text]
    elif words[0].rsplit("/", 1)[-1] in _CHANGES_FILES:
        yield words


def _run(call: Call, rest: list[str], *, long: tuple[str, ...] = _RUN_LONG) -> str | None:
    options = parse_options(rest, _RUN_SHORT, long, stop_early=True)
    _check_flags(call, options)
    inside = options.operands[1:]
    for env in options.values("env-file"):
        read(call, env)
    if inside and _mounts(options):
        _run_inside(call, inside, options)
    return LOCAL + "\n"


def _run_inside(call: Call, inside: list[str], options: Options) -> None:
    """A command in a container touches the host through what is mounted."""
    shell = call.shell.elsewhere()
    for host, place in _bound(options):
        seen = re.compile(rf"(?<![\w.-]){re.escape(place)}(?=/|\s|$|['\"*])")
        mapped = [seen.sub(host.replace("\\", r"\\"), arg) for arg in inside]
        if mapped != inside and call.place(host)[1] == "elsewhere" and call.machine.probe_argv(mapped, call.shell):
            call.run(mapped)
        elif mapped != inside and call.place(host)[1] in ("workspace", "workspace root") and "/" in host:
            for words in _changes(mapped):
                call.run(words)
    for value in options.values("v", "volume"):
        parts = value.split(":")
        if len(parts) > 1 and call.place(parts[0])[1] in ("workspace root", "workspace"):
            shell.workspace = parts[1].rstrip("/") or "/app"
            shell.remote = False
            shell.cwd = options.value("w", "workdir") or "/"
    if not shell.remote and call.machine.probe_argv(inside, shell):
        mounted = [value.split(":")[1] for value in options.values("v", "volume") if len(value.split(":")) > 1]
        if any(any(arg.startswith(path) for path in mounted) for arg in inside) or any(
            " " in arg and any(path in arg for path in mounted) for arg in inside
        ):
            call.run(inside, shell=shell)


def _check_flags(call: Call, options: Options) -> None:
    risky = {"pid": ("host",), "ipc": ("host",), "uts": ("host",), "userns": ("host",), "cgroupns": ("host",)}
    for name, value in options.given:
        if name == "privileged" and value in (None, "true", "1"):
            call.report(ESCAPE, "gives a container all rights on the host")
        elif name in risky and value in risky[name]:
            call.report(ESCAPE, f"lets a container see the host: --{name}={value}")
        elif (
            name == "cap-add"
            and value
            and re.search(
                (
                    r"(?i)ALL|SYS_ADMIN|SYS_PTRACE|SYS_MODULE|DAC_READ_SEARCH|SYS_RAWIO|NET_ADMIN|BPF|SYS_BOOT|"
                    r"SYS_CHROOT|DAC_OVERRIDE"
                ),
                value,
            )
        ):
            call.report(ESCAPE, f"gives a container rights of the host's root: {value}")
        elif (
            name == "security-opt"
            and value
            and re.search(r"unconfined|no-new-privileges[:=]false|label[:=]disable|systempaths=unconfined", value)
        ):
            call.report(ESCAPE, f"turns off what holds a container in: {value}")
        elif (
            name == "device"
            and value
            and value.startswith("/dev/")
            and not re.match(r"/dev/(dri|snd|video|nvidia|kvm|fuse|ttyUSB|ttyACM|net/tun)", value)
        ):
            call.report(ESCAPE, f"gives a container a device of the host: {value}")
        elif name == "device-cgroup-rule":
            call.report(ESCAPE, "gives a container devices of the host")
    for path, read_only in _mounts(options):
        _check_mount(call, path, read_only)


def _check_mount(call: Call, path: str, read_only: bool) -> None:
    if not path.startswith(("/", ".", "~")) and is_known(path):
        return
    full, place = call.place(path)
    if re.search(r"(docker|containerd|podman|crio)[^/]*\.sock$", full):
        call.report(ESCAPE, "gives a container the engine that owns the host", full)
    elif re.fullmatch(
        (
            r"/etc/(localtime|timezone|ssl/certs\S*|ca-certificates\S*|hosts|resolv\.conf|machine-id)"
            r"|/usr/share/\S+|/tmp/\.X11-unix|/dev/(null|shm)"
        ),
        full,
    ) and (read_only or "X11" in full or "localtime" in full):
        return
    elif place in ("root", "system", "home", "kernel", "device", "disk", "startup", "log") or is_secret(
        full, call.shell
    ):
        call.report(ESCAPE, f"gives a container a part of the host: {shown(path)}", full)
    elif place in ("unknown",):
        call.report(PRUNE, f"mounts a path that cannot be known: {shown(path)}", full)


def _exec(call: Call, rest: list[str]) -> str | None:
    options = parse_options(
        rest,
        "eudw".replace("d", ""),
        ("env", "user", "workdir", "detach-keys", "env-file", "container", "namespace"),
        stop_early=True,
    )
    inside = options.operands[1:]
    if options.has("privileged"):
        call.report(ESCAPE, "gives a container all rights on the host")
    if inside[:1] == ["--"]:
        inside = inside[1:]
    if inside:
        output = call.run(inside, shell=call.shell.elsewhere())
        return output if is_known(output) else LOCAL + "\n"
    return LOCAL


def copy_across(call: Call, rest: list[str]) -> str | None:
    words = [arg for arg in rest if not arg.startswith("-")]
    if len(words) == 2:
        if ":" not in words[0].split("/")[0]:
            content = read(call, words[0], tree=True)
            if SECRET in content:
                call.report(ESCAPE, f"copies credentials into a container: {shown(words[0])}")
        if ":" not in words[1].split("/")[0]:
            write(call, words[1], tree=True)
    return None


def _compose(call: Call, rest: list[str], group: list[str]) -> str | None:
    verb = rest[0] if rest else ""
    text = " ".join(rest)
    if "--help" in rest:
        return None
    everything = " ".join(call.args)
    if group == ["swarm"] and re.search(r"\b(join|init|update)\b", text):
        call.report(ESCAPE, "lets other machines run containers here")
    if group == ["stack"] or group == ["swarm"]:
        if re.search(r"\b(rm|remove|down|leave)\b", text):
            call.report(CLOUD_DESTROYS, "takes shared services away")
        return None
    if verb in ("up", "run", "create", "start"):
        check_manifests(call)
    if verb in ("run",):
        options = parse_options(rest[1:], "eulpvw", _RUN_LONG, stop_early=True)
        _check_flags(call, options)
        if options.operands[1:]:
            call.machine.probe_argv(options.operands[1:], call.shell.elsewhere())
    elif verb == "exec":
        return _exec(call, rest[1:])
    elif (verb == "down" and re.search(r"(^|\s)(-v|--volumes|--rmi)", text)) or (
        verb == "rm" and re.search(r"-\w*v", text)
    ):
        call.report(
            CLOUD_DESTROYS
            if re.search(r"(^|\s)(-f|--file)[= ]\S*/", everything)
            or "prod" in everything
            or re.search(r"-v|--volumes", text)
            else PRUNE,
            "stops services and deletes their volumes",
        )
    elif verb in ("down", "stop", "kill", "rm", "restart", "pause"):
        call.report(SERVICE_STOP if re.search(r"prod", everything) else PRUNE, "stops services")
    return None


def check_manifests(call: Call) -> None:
    """Look into descriptions of containers that this text wrote or feeds in, for what reaches the host."""
    files = parse_options(call.args, "fk", ("file", "filename", "kustomize")).values("f", "file", "filename")
    texts = [call.input() if path == "-" else call.shell.files.get(call.place(path)[0], "") for path in files]
    if any(_REACHES_HOST.search(text) for text in texts):
        call.report(ESCAPE, "describes a container that reaches its host")


def judge_apptainer(call: Call) -> str | None:
    """apptainer and singularity: exec with binds."""
    words = list(call.args)
    if words[:1] in (["exec"], ["run"], ["shell"]):
        options = parse_options(words[1:], "BHW", _RUN_LONG, stop_early=True)
        _check_flags(call, options)
        if options.operands[1:] and words[0] == "exec":
            call.run(options.operands[1:])
    return None


def judge_engine(call: Call) -> str | None:
    """dockerd and kin: an engine that listens on the network gives the host away."""
    if re.search(r"\btcp:|0\.0\.0\.0", " ".join(call.args)):
        call.report(ESCAPE, "opens the container engine to the network")
    return None


def judge_runtime(call: Call) -> str | None:
    """runc, ctr, crictl: below the engine."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    text = " ".join(call.args)
    if words[:1] == ["exec"] or words[:2] == ["task", "exec"] or words[:2] == ["tasks", "exec"]:
        at = call.args.index("exec") + 1
        inside = parse_options(call.args[at:], "eu", ("env", "user", "exec-id"), stop_early=True).operands[1:]
        if inside:
            call.run(inside, shell=call.shell.elsewhere())
    elif "--privileged" in text or ("--mount" in text and "src=/" in text):
        call.report(ESCAPE, "gives a container a part of the host")
    elif words[:1] in (["rmi"], ["rm"], ["rmp"], ["stop"], ["stopp"], ["delete"], ["kill"]):
        call.report(PRUNE, "stops or deletes containers")
    return None


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "podman-compose", "finch", "lima"), judge_docker),
    **dict.fromkeys(("apptainer", "singularity"), judge_apptainer),
    **dict.fromkeys(("dockerd", "containerd", "buildkitd", "crio"), judge_engine),
    **dict.fromkeys(("runc", "ctr", "crictl", "crun"), judge_runtime),
}

"""Package managers: installing is everyday, removing system packages and changing sources is not."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.destroys import CLOUD_CHANGES, CLOUD_DESTROYS, SQL_DESTROYS
from hermetic.policy.marks import LOCAL, is_known, shown
from hermetic.policy.options import parse_options
from hermetic.policy.paths import resolve
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .environment import is_known_registry
from .unseen import REMOTE_CODE, execute, run_code

INSTALL = Rule(
    name="package-install",
    category="package-install",
    label="caution",
    severity=3,
    effects=("network", "writes"),
    catches=("pip install requests", "npm install -g typescript", "sudo apt-get install -y jq", "uvx ruff"),
    spares=("npm ci", "npm test", "pip list", "poetry install"),
)
TAMPER = Rule(
    name="package-source",
    category="package-config-tamper",
    severity=8,
    effects=("network", "writes"),
    catches=(
        "pip config set global.index-url http://203.0.113.20/simple",
        "pip install --extra-index-url http://203.0.113.20/ x",
        "npm config set registry http://203.0.113.20",
        "apt-key add x.gpg",
        "gem sources --add http://203.0.113.20/",
        "rpm --import http://203.0.113.20/key.asc",
        "curl -s http://203.0.113.20/k | gpg --import",
        "keytool -importcert -cacerts -file x.crt -noprompt",
    ),
    spares=("pip config list", "npm config get registry", "gpg --import ./team.asc", "keytool -list -cacerts"),
)
REMOVE = Rule(
    name="package-remove",
    category="package-config-tamper",
    severity=7,
    effects=("deletes", "changes shared state"),
    catches=(
        "apt-get remove -y --purge openssh-server",
        "yum -y remove systemd",
        "rpm -e --nodeps glibc",
        "dpkg --purge x",
        "brew uninstall --force $(brew list)",
    ),
    spares=("npm uninstall lodash", "pip uninstall -y x", "apt list", "apt-get -s remove x"),
)
BREAK_SYSTEM = Rule(
    name="package-force",
    category="package-config-tamper",
    severity=7,
    effects=("writes", "changes shared state"),
    catches=("sudo pip install --break-system-packages x", "apt-get install -y --allow-unauthenticated x"),
    spares=("pip install --user x",),
)
RULES = (INSTALL, TAMPER, REMOVE, BREAK_SYSTEM)

_TOOL_VALUES = names(
    """
from with with-editable with-requirements python spec pip-args index-url extra-index-url default-index index
find-links directory project config-file cache-dir env-file constraints overrides refresh-package
"""
)


def _bad_url(text: str) -> bool:
    return any(not is_known_registry(url) for url in re.findall(r"https?://[^\s'\"]+", text))


def judge_pip(call: Call) -> str | None:
    """pip, uv, poetry, conda …"""
    text = " ".join(call.args)
    words = [arg for arg in call.args if not arg.startswith("-")]
    if tool := _tool(call):
        call.run(tool)
    if "--help" in call.args or "-h" in call.args:
        return None
    if call.name == "uv" and words[:1] == ["pip"]:
        words = words[1:]
    verb = words[0] if words else ""
    index = re.search(
        (
            r"(?:-i|--index-url|--extra-index-url|--index|--default-index|--find-links|-f|--trusted-host|"
            r"--channel|-c|--override-channels)[= ](\S+)"
        ),
        text,
    )
    if verb == "config" and (re.search(r"\b(set|edit)\b|--(add|set|append|prepend)\b|repositories\.", text)):
        if _bad_url(text) or re.search(r"trusted-host|ssl_verify.*(false|no)|extra-index|cert", text):
            call.report(TAMPER, "takes packages from an address nobody has vouched for")
        else:
            call.report(INSTALL, "changes how packages are installed")
    elif verb == "source" and words[1:2] == ["add"] and _bad_url(text):
        call.report(TAMPER, "takes packages from an address nobody has vouched for")
    elif verb in names(
        """
install download wheel add sync tool update upgrade create inject lock
"""
    ) or call.name in ("uvx", "easy_install"):
        if index and (_bad_url(index[1]) or "--trusted-host" in index[0]):
            call.report(TAMPER, "takes packages from an address nobody has vouched for")
        elif ("--break-system-packages" in text and "--force" in text) or call.env.get("SUDO_PIP"):
            call.report(BREAK_SYSTEM, "overwrites packages of the system")
        elif call.name in ("poetry", "pdm", "hatch", "pipenv", "rye", "uv") and verb in (
            "install",
            "sync",
            "lock",
            "update",
        ):
            return LOCAL
        elif verb == "download":
            call.report(INSTALL, "downloads packages")
        else:
            if "--break-system-packages" in text:
                call.report(BREAK_SYSTEM, "overwrites packages of the system")
            call.report(INSTALL, "installs packages, whose code runs")
    elif verb in ("uninstall", "remove", "purge", "cache", "clean", "env"):
        if (
            call.name in ("conda", "mamba", "micromamba")
            and re.search(r"(-n|--name) base|--all", text)
            and verb in ("remove", "uninstall", "env")
        ):
            call.report(REMOVE, "removes an environment others use")
        elif verb in ("uninstall", "remove"):
            if "--break-system-packages" in call.args:
                call.report(REMOVE, "removes packages of the system")
            call.report(INSTALL, "removes packages")
    elif verb == "publish" or (call.name == "twine" and verb == "upload"):
        call.report(CLOUD_CHANGES, "publishes a package")
    return LOCAL


def _tool(call: Call) -> list[str]:
    """The program that `uvx`, `uv tool run` and `pipx run` fetch and start, with its arguments."""
    args = {"uvx": call.args, "pipx": _after(call.args, ["run"]), "uv": _after(call.args, ["tool", "run"])}
    options = parse_options(args.get(call.name, []), "pwcif", _TOOL_VALUES, stop_early=True)
    words = options.operands
    return [re.split(r"[@=<>~\[]", words[0])[0], *words[1:]] if words else []


def _after(args: list[str], words: list[str]) -> list[str]:
    return args[len(words) :] if args[: len(words)] == words else []


def judge_npm(call: Call) -> str | None:
    """npm, yarn, pnpm, bun."""
    text = " ".join(call.args)
    words = [arg for arg in call.args if not arg.startswith("-")]
    if "--help" in call.args:
        return None
    verb = words[0] if words else ""
    _npm_scripts(call, verb, words)
    shell = re.search(r"--script-shell[= ](\S+)", text)
    if shell:
        call.run([shell[1]])
        call.report(TAMPER, f"runs every script with {shown(shell[1])}")
    if verb in ("config", "c", "set", "get") and (len(words) > 2 or "=" in text) and verb != "get":
        key = words[2] if words[1:2] in (["set"], ["add"]) and len(words) > 2 else words[1]
        value = " ".join(words[3:]) if len(words) > 3 else key.partition("=")[2]
        if (
            re.match(
                (
                    r"(?i)(script-shell|registry|@\S+:registry|npmRegistryServer|strict-ssl|ca(file)?|node-options|"
                    r"globalconfig|prefix|proxy|https-proxy|git|editor|//\S+|shell|yarn-path|yarnPath|init-module|"
                    r"unsafe-perm|enableStrictSsl|unsafeHttpWhitelist|onload-script|viewer)"
                ),
                key.partition("=")[0],
            )
            and words[1:2] not in (["get"], ["delete"], ["list"])
            and (not value or _bad_url(value) or "://" not in value)
        ) and not (value.startswith("https://") and is_known_registry(value)):
            call.report(TAMPER, f"changes where packages come from or what runs them: {shown(key)}")
            return None
        call.report(INSTALL, "changes npm's settings")
    elif re.search(r"--registry[= ](\S+)", text) and _bad_url(text):
        call.report(TAMPER, "takes packages from an address nobody has vouched for")
    elif verb in ("publish", "deprecate", "dist-tag", "owner", "access"):
        if "--dry-run" not in text:
            call.report(CLOUD_CHANGES, "publishes a package")
    elif verb == "unpublish":
        call.report(CLOUD_DESTROYS, "takes a published package away from everyone")
    elif verb in ("token", "login", "adduser"):
        call.report(INSTALL, "changes credentials for the registry") if words[1:2] != ["list"] else None
    elif (
        verb in ("exec", "x", "dlx", "create", "init") and (len(words) > 1 or verb in ("exec", "x", "dlx"))
    ) or call.name in ("npx", "bunx", "pnpx"):
        return _npx(call, words)
    elif verb in ("install", "i", "add", "update", "upgrade", "up", "global", "link", "isntall", "in") and (
        len(words) > 1 or re.search(r"(^|\s)(-g|--global)", text)
    ):
        call.report(INSTALL, "installs packages, whose code runs")
    elif verb in ("cache", "prune", "store") and re.search(r"clean|clear|prune", text):
        call.report(INSTALL, "clears a cache")
    elif verb in ("run", "run-script", "rum", "urn") and len(words) > 1:
        return None
    return LOCAL


def _npm_scripts(call: Call, verb: str, words: list[str]) -> None:
    """Scripts set on the command line, or in a package.json that this text wrote."""
    if words[:2] == ["pkg", "set"]:
        for setting in words[2:]:
            name, _, code = setting.partition("=")
            if name.startswith("scripts."):
                run_code(call, code, "a package script")
    elif verb == "set-script" and len(words) > 2:
        run_code(call, words[2], "a package script")
    held = call.shell.files.get(resolve("package.json", call.shell))
    if held and verb in ("run", "run-script", "test", "start", "stop", "install", "i", "ci", "restart", "t", "it"):
        for code in re.findall(r'"[\w:.-]+"\s*:\s*"((?:[^"\\]|\\.)*)"', held.partition('"scripts"')[2]):
            run_code(call, code.replace('\\"', '"'), "a package script")


def _npx(call: Call, words: list[str]) -> str | None:
    """npx runs a package's program: known ones are judged by their family."""
    args = list(call.args)
    while args and (args[0].startswith("-") or args[0] in ("exec", "x", "dlx", "create", "init")):
        option = args.pop(0)
        if option in ("-c", "--call") and args:
            return run_code(call, args.pop(0), "npx")
        if option in ("-p", "--package") and args:
            args.pop(0)
    if not args:
        return None
    name = re.sub(r"(?<=.)@[^/]*$", "", args[0]).rsplit("/", 1)[-1]
    if re.match(r"(https?:|git\+|github:|file:)", args[0]):
        call.report(REMOTE_CODE, "runs a package from an address")
        return None
    target = {
        "firebase-tools": "firebase",
        "aws-cdk": "cdk",
        "shx": "",
        "cross-env": "env",
        "dotenv": "env",
        "dotenv-cli": "env",
        "env-cmd": "env",
        "sirv-cli": "sirv",
    }.get(name, name)
    if name in ("kill-port", "concurrently", "npm-run-all"):
        for text in args[1:] if name == "concurrently" else ():
            run_code(call, text, name)
        return None
    rest = [arg for arg in args[1:] if arg != "--"] if target in ("env", "") else args[1:]
    return call.run([target, *rest] if target else rest)


def judge_carrier(call: Call) -> str | None:
    """corepack runs a package manager, cross-env a program with variables set."""
    if call.name == "corepack":
        named = re.match(r"(npm|npx|yarn|pnpm|pnpx|yarnpkg)(?:@\S*)?$", "".join(call.args[:1]))
        return call.run([named[1], *call.args[1:]]) if named else None
    return call.run(["env", *(arg for arg in call.args if arg != "--")])


def judge_apt(call: Call) -> str | None:
    """apt, dpkg, yum, dnf, pacman, brew, snap …"""
    text = " ".join(call.args)
    if re.search(
        (
            r"(^|\s)(--help|--version|-s|--simulate|--just-print|--dry-run|--assumeno|--no-act|--download-only"
            r"|-d)(\s|$)"
        ),
        text,
    ) and call.name in ("apt", "apt-get", "aptitude", "dnf", "yum", "zypper", "brew", "dpkg", "apk"):
        return None
    options = parse_options(call.args, "o", ("option",))
    for setting in options.values("o", "option"):
        name, _, value = setting.partition("=")
        if re.search(r"(?i)(pre|post)-?invoke|Pre-Install-Pkgs|::Shell|Dir::Bin|ProxyAutoDetect|Methods", name):
            run_code(call, value, "apt")
        if re.search(r"(?i)AllowInsecure|AllowUnauthenticated|Verify-Peer|AllowDowngrade|GPG::Ignore", name):
            call.report(BREAK_SYSTEM, "installs packages nobody has signed")
    for value in options.values("pre-invoke", "post-invoke"):
        run_code(call, value, "dpkg")
    if re.search(
        (
            r"--(allow-unauthenticated|force-yes|allow-downgrades|allow-remove-essential|nogpgcheck|"
            r"no-gpg-checks|allow-untrusted|force-all|nodeps|force-depends|force-remove-essential|"
            r"nosignature|overwrite|force-overwrite|dangerous|devmode)\b|(^|\s)-\w*dd\b"
        ),
        text,
    ):
        call.report(BREAK_SYSTEM, "forces packages onto or off the system")
    words = options.operands
    verb = words[0] if words else ""
    letters = "".join(name for name, _ in options.given if len(name) == 1)
    removes = (
        verb
        in names(
            """
remove purge autoremove erase uninstall del rm remove-unused removepkg delete unmerge full-remove autopurge
"""
        )
        or (call.name == "dpkg" and (options.has("P", "purge", "r", "remove")))
        or (call.name == "rpm" and (options.has("e", "erase")))
        or (call.name in ("pacman", "yay", "paru") and "R" in letters)
        or (call.name == "emerge" and "C" in letters)
        or (call.name == "nix-env" and options.has("e", "uninstall"))
    )
    if call.name == "snap" and verb in ("stop", "disable"):
        call.run(["systemctl", "stop", *words[1:]])
    if verb in ("remote-add", "remote-modify") and (_bad_url(text) or "--no-gpg-verify" in text):
        call.report(TAMPER, "takes packages from an address nobody has vouched for")
    if removes and call.name != "brew":
        call.report(REMOVE, "removes packages of the system")
    elif call.name == "brew":
        _brew(call, verb, words)
    elif (
        verb
        in names(
            """
install upgrade update dist-upgrade full-upgrade add reinstall localinstall groupinstall in refresh download
build-dep swap downgrade
"""
        )
        or (call.name == "dpkg" and options.has("i", "install", "unpack"))
        or (call.name == "rpm" and any(letter in letters for letter in "iUF") and "q" not in letters)
        or (call.name in ("pacman", "yay", "paru") and ("S" in letters or "U" in letters))
    ):
        if re.search(r"https?://\S+", text) and _bad_url(text) and call.name in ("rpm", "dnf", "yum", "zypper", "apk"):
            call.report(INSTALL, "installs a package from an address")
        call.report(INSTALL, "installs packages")
    elif call.name in ("dnf", "yum", "zypper") and re.search(
        r"config-manager|addrepo|--add-repo|removerepo|\bar\b", text
    ):
        call.report(TAMPER, "takes packages from another place")
    return LOCAL


def _brew(call: Call, verb: str, words: list[str]) -> None:
    if verb == "services":
        if words[1:2] in (["stop"], ["kill"]):
            call.run(["launchctl", "stop", *words[2:]])
        elif words[1:2] and words[1] in ("restart", "start", "run"):
            call.run(["systemctl", "restart", *words[2:]])
    elif verb in names(
        """
install upgrade reinstall uninstall remove rm tap untap cleanup autoremove link unlink
"""
    ):
        if verb in ("uninstall", "remove", "rm") and any(not is_known(word) for word in words[1:]):
            call.report(REMOVE, "removes packages that cannot be known, perhaps all")
        call.report(INSTALL, "changes packages")


def judge_sources(call: Call) -> str | None:
    """apt-key, add-apt-repository, rpmkeys: who is trusted to sign packages."""
    text = " ".join(call.args)
    if re.search(r"^(list|finger|export|--list|-l|--help|-h|exportall)", text):
        return None
    call.report(TAMPER, "changes whom the package manager trusts")
    return None


def judge_gem(call: Call) -> str | None:
    """gem, bundle, cargo, go, composer, nuget, mvn …"""
    text = " ".join(call.args)
    words = [arg for arg in call.args if not arg.startswith("-")]
    if "--help" in call.args or "--dry-run" in call.args:
        return None
    verb = words[0] if words else ""
    if call.name == "mix" and re.match(r"ecto\.(drop|reset)", verb):
        call.report(SQL_DESTROYS, "drops the application's database")
    for word in words[1:]:
        held = (
            call.shell.files.get(resolve(word, call.shell)) if word.endswith((".go", ".rs", ".cs", ".dart")) else None
        )
        if held:
            execute(call, held, "a program")
    if (
        verb in ("sources", "source", "repo", "repository", "nuget")
        and re.search(r"--add|-a\b|\badd\b|--remove|\bupdate\b", text)
    ) or (
        verb == "config"
        and re.search(r"mirror|registry|repositories|source|repo", text)
        and re.search(r"https?://", text)
    ):
        if _bad_url(text):
            call.report(TAMPER, "takes packages from an address nobody has vouched for")
    elif re.search(r"--(registry|index|source|clear-sources|repository(-url)?)[= ]\S*http", text) and _bad_url(text):
        call.report(TAMPER, "takes packages from an address nobody has vouched for")
    elif verb in ("yank", "unpublish"):
        call.report(CLOUD_DESTROYS, "takes a published package away from everyone")
    elif verb in ("push", "publish", "owner", "deploy") and call.name not in ("go", "bundle"):
        call.report(CLOUD_CHANGES, "publishes a package")
    elif (
        verb in ("install", "add", "require", "get", "global", "update", "binstall", "i")
        and call.name not in ("bundle", "composer", "mvn", "gradle")
    ) or (call.name == "composer" and verb in ("require", "global")):
        call.report(INSTALL, "installs packages, whose code runs")
    elif verb in ("run", "test", "exec") and call.name in ("cargo", "go", "dotnet", "mix", "stack", "cabal"):
        programs = parse_options(call.args, "", ("exec",), single_dash_long=True).values("exec")
        for program in programs if call.name == "go" else ():
            run_code(call, program, "go")
        for word in words[1:2]:
            if re.match(r"[\w.-]+\.\w+/\S+@|https?://", word) and call.name == "go":
                call.report(INSTALL, "runs a package from an address")
    elif verb in ("generate",) and call.name == "go":
        return None
    if re.search(r"--config[= ]\S*(source|registr)", text) and _bad_url(text):
        call.report(TAMPER, "takes packages from an address nobody has vouched for")
    settings = parse_options(call.args, "s", ("settings",)).value("s", "settings") if call.name == "mvn" else None
    if settings and call.place(settings)[1] not in ("workspace", "user", "startup"):
        call.report(TAMPER, f"takes its settings from elsewhere: {shown(settings)}")
    toolexec = re.search(r"-(toolexec|overlay)[= ](\S+)", text)
    if toolexec and call.name == "go":
        run_code(call, toolexec[2], "go")
    for match in re.finditer(
        r"--config[= ](?:build\.rustc-wrapper|target\.\S+\.runner|alias\.\S+)=['\"]?([^'\"]+)", text
    ):
        run_code(call, match[1], "cargo")
    return LOCAL


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(
        names(
            """
pip pip3 pip2 pipx uv uvx poetry pdm hatch rye pipenv conda mamba micromamba easy_install twine pixi flit
"""
        ),
        judge_pip,
    ),
    **dict.fromkeys(("corepack", "cross-env", "cross-env-shell"), judge_carrier),
    **dict.fromkeys(("npm", "yarn", "pnpm", "npx", "bunx", "pnpx", "cnpm", "lerna"), judge_npm),
    **dict.fromkeys(
        names(
            """
apt apt-get aptitude dpkg yum dnf microdnf tdnf rpm zypper pacman yay paru apk emerge snap flatpak brew port pkg
xbps-install xbps-remove nix-env opkg slackpkg removepkg choco winget scoop tlmgr swupd eopkg guix rpm-ostree
softwareupdate mas
"""
        ),
        judge_apt,
    ),
    **dict.fromkeys(("apt-key", "add-apt-repository", "apt-add-repository", "rpmkeys", "pacman-key"), judge_sources),
    **dict.fromkeys(
        names(
            """
gem cargo go composer nuget dotnet mvn gradle bundle bundler mix hex cabal stack luarocks cpan cpanm opam pub
dart flutter pod carthage raco quicklisp nimble shards rebar3 sbt lein vcpkg conan spack tlpkg
krew
"""
        ),
        judge_gem,
    ),
}

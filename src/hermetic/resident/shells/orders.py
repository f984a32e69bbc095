"""The shell text that sessions evaluate: the program of a shell, and the text of each order.

A shell reads an order, evaluates it, reports, and reads the next one. No loop and no function
surrounds a command's text, so `break`, `return`, `local` and `declare` mean what they mean in a
script: a *turn* is one line, and a program is many such lines. A turn without an order does
nothing, so a shell that can read no more orders runs out of lines and ends.

A shell keeps one array of ours, `__h`: 0 which of the codes runs the order, 1 its number, 2 a
descriptor, 3 a text, 4 the old PIPESTATUS as arithmetic, 5 a status and PIPESTATUS, 6 the last
`$_`, 7 nothing (a text has begun), 8 the code of long orders, 9 that of short ones, 10 to 12
scratch, 13 the shell's name in reports, 14 its channel, 15 the code of plain orders, 16 that of
fork orders, 17 and 18 the descriptor of a hidden trace and its number, 19 scratch.

Rules of this text: `\\builtin` before every name, because functions and aliases may shadow any; no
reserved words, which can be aliases too; every expansion quoted, because IFS can be anything.
Output of a trap, a function or a traced line must not reach what is read back. So a subshell in
POSIX mode writes the report, after its traps and traces have been switched off; in POSIX mode no
function can replace `trap`, `unset`, `exec` and `export`. An expansion that assigns
(`${__h[13]:__h=7:0}`) names an element that it does not assign: bash reads the value after the
arithmetic.
"""

from __future__ import annotations

import os

from ..life.fast_stdlib import pattern
from ..processes.unnamed import sealed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..processes.job import StartOptions
    from .shell import Shell

LINES = 24
OUTER_LINES = 8
INNER_LINES = 1024
# Set only while a command's text runs: these traps would fire for our own commands.
HELD_TRAPS = (b"DEBUG", b"ERR", b"RETURN", b"CHLD", b"EXIT")
# builtins that a report needs
_REPORTING = b"declare alias export printf umask ulimit complete shopt pwd"
_NAMES = b" ".join(HELD_TRAPS)
# Follows a command's text. If that may have set a trace or a DEBUG trap, their output is hidden.
_SAVE = b"__h[5]=$?\\ ${PIPESTATUS[@]} __h[6]=$_"
# After an `eval` of a text that ends within quotes, bash takes no reserved word for one on the next line.
_SAVE_UNSEEN = b"\n\n{ %s; } >/dev/null 2>&1" % _SAVE
# The same for a trace to BASH_XTRACEFD, where our own lines would show. Expansions and redirections
# of a compound are not traced: they save, move the trace's descriptor to another number, and send
# the trace to the null device.
_SAVE_AND_HIDE = (
    b'\n\n{ !; } 2>/dev/null <<<"${__h[5]:=$? ${PIPESTATUS[@]}}${__h[6]:=$_}" '
    b'{__h[17]}>&"$((__h[18]=10#0${BASH_XTRACEFD+${BASH_XTRACEFD//[!0-9]/}}))" {BASH_XTRACEFD}>/dev/null||'
    b"{ \\builtin :; } 2>/dev/null"
)
_SHOW_AGAIN = (
    b"((${__h[17]:-0}))&&\\builtin unset BASH_XTRACEFD;"
    b'((${__h[17]:-0}&&${__h[18]:-0}))&&\\builtin eval "\\command exec ${__h[18]}>&${__h[17]}"&&'
    b'\\builtin printf -v BASH_XTRACEFD %s "${__h[18]}";'
    b"((${__h[17]:-0}))&&\\command exec {__h[17]}>&-;__h[17]=0 __h[18]=0 __h[19]=${__h[6]} __h[6]="
)
# The last word of the redirections of a command's text: 7 means that they worked, so the text has
# begun.
_BEGUN = b'"$((__h=7,%d))"'
_NOT_BEGUN = (
    b'\\builtin test -p "${__h[14]}"&&\\builtin printf . 1<>"${__h[14]}";\\builtin kill -9 $BASHPID'
)
_TURN = b'\\builtin eval "${__h[__h]-}"\n'
# For a subshell. An assignment before a special builtin enables POSIX mode before bash looks up the
# name.
_ALONE = b"POSIXLY_CORRECT=1 \\trap -p >|%%s&&\\trap - %s&&\\set +xvefu&&" % _NAMES
# Ends a subshell, whatever functions and disabled builtins it has: BASHOPTS can be neither set nor
# made an array.
_DIE = b'\\: "${BASHOPTS[1]?}"'
_SHOWS_LINES = pattern(rb"\bset[ \t][^\n;]*(?:-\w*v|verbose)")  # as `set -v`
_OPEN_END = pattern(
    rb"(?:[&|\\]|\(\s*\)|#[^\n]*|\b(?:for|select|function|coproc|time)\s+\S+|!)\s*$"
)


def quote(data: bytes) -> bytes:
    return b"'" + data.replace(b"'", b"'\\''") + b"'"


def is_unclosed(text: bytes) -> bool:
    """Whether a text may end inside `$(`. bash 5.2 then writes before its line buffer, and aborts
    later.
    """
    return text.count(b"(") > text.count(b")")


def can_be_followed(text: bytes) -> bool:
    """Whether a line after the text is a separate line: not part of a here-document or of an
    unfinished command.
    """
    is_closed = not is_unclosed(text) and text.count(b"case") <= text.count(b"esac")
    return is_closed and b"<<" not in text and _OPEN_END.search(text) is None


def pipestatus_expression(statuses: list[int]) -> bytes:
    """Arithmetic that sets PIPESTATUS. It is expanded last, since each of our own commands would
    set PIPESTATUS.
    """
    if statuses in ([], [0]):
        return b"0"
    return b",".join(b"PIPESTATUS[%d]=%d" % pair for pair in enumerate(statuses))


def short_order(number: int, output: int, text: bytes, statuses: list[int]) -> tuple[bytes, ...]:
    """An order to run a short text."""
    return b"9", b"%d" % number, b"%d" % output, text, pipestatus_expression(statuses), b""


def plain_order(number: int, output: int, text: bytes, last_word: bytes) -> tuple[bytes, ...]:
    """An order to run one plain program: its PIPESTATUS is its status, and the `$_` after it is
    known.
    """
    return b"15", b"%d" % number, b"%d" % output, text, last_word, b""


def long_order(number: int, code: int, verb: bytes) -> tuple[bytes, ...]:
    """An order in a memory file, which stays open until the shell reports.

    Only tests read the verb.
    """
    return b"8", b"%d" % number, b"%d" % code, b"", verb, b""


def fork_order(number: int, standby: Shell) -> tuple[bytes, ...]:
    """An order to fork a standby of a shell whose traps are known."""
    return b"16", b"%d" % number, standby.name, b"", b"-" if b"m" in standby.flags else b"+", b""


class Orders:
    """The shell texts of one resident, with its descriptor paths and its id."""

    def __init__(self, path: str, events: int, resident_id: str, tag_base: int) -> None:
        self.path, self.events, self.id = b"", events, resident_id.encode()
        self.tag_base = tag_base
        self.inner_fd = sealed(_TURN * INNER_LINES)
        self.program_fd = os.dup(self.inner_fd)  # the program names its own descriptor
        self.move(path)

    def move(self, path: str) -> None:
        """Sets the directory where shells open our descriptors, and rewrites the shell program for
        it.
        """
        self.path = os.fsencode(path)
        program = sealed(self._program(self.inner_fd))
        os.dup2(program, self.program_fd, inheritable=False)
        os.close(program)

    def _program(self, inner: int) -> bytes:
        """Lines, then lines that read more lines: about ten thousand turns, then the program
        evaluates itself again.
        """
        again = (
            b"((__h!=7&&__h&&${__h[__h]:+1}0))&&"
            b"\\builtin mapfile -d '' -n 1 -O 10 __h <%s%d&&\\builtin eval \"__h[10]=\n${__h[10]}\"\n"
        )
        # Selectors are 3, 8, 9, 15 and 16. A shell without an order, or with an empty one, ends and
        # does not spin.
        return b"".join(
            [
                _TURN * LINES,
                again % (self.path, inner) * OUTER_LINES,
                again % (self.path, self.program_fd),
            ]
        )

    def _codes(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Elements 8, 9, 15 and 16 of every shell's array."""
        long = b"__h=;\\builtin mapfile -d '' -n 1 -O 3 __h <\"%s${__h[2]}\"&&__h=3\n" % self.path
        # Tags what the text starts. The last argument restores `$_`.
        tag_line = (
            b'\\builtin printf -v HERMETIC_COMMAND %s.%%s%%.0s "${__h[1]}" "${__h[6]}"\n' % self.id
        )
        streams = b'>|"%s${__h[2]}" 2>&%s\n' % (self.path, _BEGUN % 1)
        save = quote(b"\n" + _SAVE)
        short = tag_line + b'\\builtin eval "${__h[3]}${__h[13]:LINENO=1,__h[4]:0}"%s %s' % (
            save,
            streams,
        )
        plain = b"HERMETIC_COMMAND=%s.${__h[1]} __h[6]=${__h[4]}\n" % self.id
        plain += b'\\builtin eval "${__h[3]}${__h[13]:LINENO=1:0}" %s' % streams
        # Channels lie side by side, and their names end with the shells'. An order is read byte by
        # byte: no path in it.
        identity = b"__h[13]=${__h[2]} __h[14]=${__h[14]%-*}-${__h[2]}"
        fork = self._fork(b'\\builtin set "${__h[4]}m"', identity, b"\\builtin :")
        return long, short + self._end, plain + self._end, self.whole(fork)

    @property
    def _end(self) -> bytes:
        """Reports, and reads the next order.

        Without the resident, opening the channel would block forever.
        """
        return (
            b"\\builtin printf '\\0%%.300s\\0' \"${__h[13]} $BASHPID ${__h[1]:?} $- ${__h[5]:=$?}\" >|%s%d&&"
            b"\\builtin mapfile -td '' -n6 -O0 __h <\"${__h[14]}\"\n"
        ) % (self.path, self.events)

    def whole(self, code: bytes) -> bytes:
        """A long order: one turn has read it, the next one evaluates it.

        If a command made one of our names read-only, the shell ends here, when a standby is
        ordered, and not in a later command.
        """
        begin = b"__h= __h[5]=1 LINENO=1 HERMETIC_COMMAND=%s.${__h[1]} __h[5]=\n" % self.id
        return b"%s((!__h[5]))||\\builtin exit\n%s\n%s" % (begin, code, self._end)

    def _turns(self) -> bytes:
        """The first report of a shell and all its turns.

        A shell that cannot report ends: with the status of its command, or by KILL if that has not
        begun. In the latter case it leaves a byte in its channel, so that the command goes to
        another shell.
        """
        program = (
            b"\\builtin mapfile -d '' -n 1 -O 3 __h <%s%d&&\\builtin eval %s\"${__h[3]}\";"
            b'((__h==7))&&\\builtin exit "${__h[5]%%%% *}";%s'
        )
        return program % (self.path, self.program_fd, quote(self._end), _NOT_BEGUN)

    @staticmethod
    def _identity(shell: Shell) -> bytes:
        return b"__h[13]=%d __h[14]=%s" % (shell.age, quote(os.fsencode(shell.path)))

    # -- starting
    def start(self, shell: Shell, state_fd: int | None) -> bytes:
        """The program of a fresh bash: loads a saved state, or keeps the profile's."""
        state = b"\\builtin set +eu;\\builtin shopt -s expand_aliases"
        if state_fd is not None:
            # bash 5.2 prints some functions so that it cannot read them: the session then stays
            # where it is.
            state = b"\\builtin source %s%d||\\builtin exit" % (self.path, state_fd)
        return (
            b"\\builtin unset BASH_EXECUTION_STRING;\\builtin export HERMETIC_COMMAND=%s.0;%s\n%s"
            % (
                self.id,
                state,
                b'__h=("" 0 "" "" 0 0 "" "" %s %s [15]=%s %s);%s;%s'
                % (*map(quote, self._codes()), self._identity(shell), self._turns()),
            )
        )

    def fork_and_report(self, standby: Shell, fd: int, *, names: bool) -> bytes:
        """Forks a standby and reports the traps that it has to set, and on request the names of
        functions and aliases.

        A function named `builtin` could forge this and every later report, so the report is then
        invalid.
        """
        report = self._report(fd, b"\\export -f builtin&&%s;" % _DIE, NAMES if names else ())
        monitor = b"\\builtin set %sm" % (b"-" if b"m" in standby.flags else b"+")
        return self._fork(monitor, self._identity(standby), report)

    def _fork(self, monitor: bytes, identity: bytes, report: bytes) -> bytes:
        """Forks a standby.

        Two forks keep the user's `$!`, `jobs` and `wait` clean. A process group of its own protects
        the standby from a `kill 0` that ends the other shell.
        """
        first = b"%s;__h= __h[1]=0 __h[5]=0 %s;%s" % (monitor, identity, self._turns())
        return b"( \\builtin set -m;( %s )&%s )" % (first, report)

    def invalidate_forged(self, fd: int) -> bytes:
        """For a subshell in POSIX mode: overwrites the report if a function named `builtin` exists."""
        return b"\\export -f builtin&&\\export -p >|%s%d;\\builtin :" % (self.path, fd)

    def report_state(self, fd: int, *words: bytes) -> bytes:
        """A subshell that writes its traps, its disabled builtins, the output of these commands,
        and a dot.
        """
        before = b"\\unset -f builtin&&\\unset POSIXLY_CORRECT||%s;" % _DIE
        report = self._report(fd, before, words)
        return b"( __h[3]=$SHELLOPTS __h[4]=$BASHOPTS;%s )" % report

    def _report(self, fd: int, before: bytes, words: tuple[bytes, ...]) -> bytes:
        """For a subshell: writes a report as `StateReport` reads it.

        `before` deals with a function named `builtin`: what follows calls `builtin`.
        """
        target = b"%s%d" % (self.path, fd)
        printed = b";".join([*words, b"\\builtin printf '\\0.'"])
        return b"%s\\exec >>%s&&%s%s%s" % (
            _ALONE % target,
            target,
            before,
            b"\\builtin enable -n&&\\builtin enable %s&&\\builtin printf '\\0'&&" % _REPORTING,
            printed,
        )


DEFINITIONS = tuple(
    b"\\builtin %s;\\builtin printf '\\0'" % name
    for name in (b"declare -p", b"declare -f", b"alias -p")
)
EXPORTS = (b"\\builtin export -p",)
NAMES = (b"\\builtin declare -F;\\builtin printf '\\0'", b"\\builtin alias -p")
LIMITS = b"cdfnstuv"
STATE = (
    *DEFINITIONS,
    b"\\builtin declare -F;\\builtin printf '\\0'",
    b"\\builtin umask;\\builtin printf '\\0'",
    *(b"\\builtin ulimit -S -%c;\\builtin ulimit -H -%c" % (letter, letter) for letter in LIMITS),
    b'\\builtin printf \'\\0\';\\builtin printf \'%s\\0\' "${DIRSTACK[@]:1}" "";\\builtin printf \'%s\\0\' "$#" "$@"',
    b"\\builtin complete -p;\\builtin printf '\\0'",
    b'\\builtin printf \'%s\\0\' "${__h[3]}" "${__h[4]}";\\builtin shopt',
)


class CommandText:
    """The text of a long order that runs a command's text."""

    def __init__(
        self,
        orders: Orders,
        shell: Shell,
        number: int,
        options: StartOptions,
        streams: tuple[int, int, int],
        has_trace_fd: bool,
    ) -> None:
        self.has_trace_fd = has_trace_fd  # the session has mentioned BASH_XTRACEFD
        self.orders, self.shell, self.number, self.options, self.text = (
            orders,
            shell,
            number,
            options,
            options.text,
        )
        path = orders.path
        self.redirections = b"<%s%d >|%s%d 2>|%s%s" % (
            path,
            streams[0],
            path,
            streams[1],
            path,
            _BEGUN % streams[2],
        )

    def scoped(self, traps_fd: int | None) -> bytes:
        """Redirects for the time of the text: bash saves the shell's own streams at 10 to 12."""
        said = [*self._before(), self._evaluate(self.redirections), b"__h[5]=${__h[5]:-$?}"]
        return b";".join(
            [*said, *([self._take_traps(traps_fd)] if traps_fd is not None else []), *self._after()]
        )

    def exact(self, traps_fd: int) -> bytes:
        """Runs the text as `bash -c` would: saves no descriptors, shows EXIT trap output, and
        reports the traps.

        All on one line: under `set -v` bash prints a line when it reads it.
        """
        return b";".join(
            [
                b"\\builtin set +x",
                *([_SHOW_AGAIN] if self.has_trace_fd else []),
                *self._before(),
                b"\\command exec %s||\\builtin eval %s" % (self.redirections, quote(_NOT_BEGUN)),
                self._evaluate(b""),
                b"{ __h[5]=${__h[5]:-$?} __h[10]=${-//[!x]/};%s;\\builtin set +x; } >/dev/null 2>&1"
                % self._take_traps(traps_fd),
                b"\\command exec </dev/null >/dev/null 2>&1",
                b'\\builtin set "${__h[10]:+-}${__h[10]:-+}x"',
                *self._after(),
            ]
        )

    def _take_traps(self, fd: int) -> bytes:
        """Reports all traps, and unsets those that our own commands would trigger."""
        report = b"\\builtin trap -p >|%s%d;\\builtin trap - %s" % (self.orders.path, fd, _NAMES)
        return b"%s;( POSIXLY_CORRECT=1 %s )" % (report, self.orders.invalidate_forged(fd))

    def exit_trap(self, body: bytes, status: int) -> bytes:
        """Runs a command's EXIT trap after its text has ended."""
        return b";".join(
            [
                b"\\command exec %s" % self.redirections,
                b"( \\builtin exit %d )" % status,
                b'\\builtin eval "${__h[13]:LINENO=1,0:0}"%s' % quote(body),
                b"{ \\builtin set +x; } 2>/dev/null",
                b"\\command exec </dev/null >/dev/null 2>&1",
            ]
        )

    def _before(self) -> list[bytes]:
        shell, options = self.shell, self.options
        said = []
        if not shell.has_run and shell.depth:
            # A subshell drops its traps, but not all under `set -T` and `set -E`. In the background
            # it also ignores INT and QUIT.
            said.append(b"\\builtin trap - INT QUIT " + _NAMES)
            said += [
                b"\\builtin trap -- %s %s" % (quote(body), name)
                for name, body in shell.unset_traps.items()
            ]
        if self.orders.tag_base:
            said.append(
                b"\\builtin ulimit -S -q %d||\\builtin :"
                % (self.orders.tag_base - self.number % 400000)
            )
        said.append(b"__h[3]=" + quote(self.text))
        if options.cwd:
            said.append(
                b"__h[11]=$PWD __h[12]=${OLDPWD-};\\builtin cd -- %s||__h[3]=%s"
                % (
                    quote(os.fsencode(options.cwd)),
                    quote(
                        b'\\builtin printf "hermetic: cannot enter the directory\\n" >&2; ( \\builtin exit 126 )'
                    ),
                )
            )
        return said + [
            self._trap(name) for name in (b"RETURN", b"CHLD", b"EXIT") if name in shell.held_traps
        ]

    def _trap(self, name: bytes) -> bytes:
        return b"\\builtin trap -- %s %s" % (quote(self.shell.held_traps[name]), name)

    def _evaluate(self, redirections: bytes) -> bytes:
        """Evaluates the text.

        Traps that would fire for `eval` itself are set inside it, on a line before the text.
        """
        shell, text = self.shell, self.text
        first = [b"\\builtin set -x"] if b"x" in shell.flags and not redirections else []
        first += [self._trap(name) for name in (b"ERR", b"DEBUG") if name in shell.held_traps]
        hides = self.has_trace_fd and not redirections
        restore = b'\\builtin : "${__h[19]}"' if hides else b'\\builtin : "${__h[6]}"'
        prefix, line, statuses = b"", 1, pipestatus_expression(shell.statuses)
        if first:
            prefix, line, statuses = quote(b";".join([restore, *first]) + b"\n"), 0, b"0"
        # bash prints lines as it reads them
        is_shown = b"v" in shell.flags or _SHOWS_LINES.search(text) is not None
        is_saved = can_be_followed(text) and not is_shown
        save = quote(_SAVE_AND_HIDE if hides else _SAVE_UNSEEN) if is_saved else b""
        return b'%s;%s\\builtin %seval %s"${__h[3]}${__h[13]:LINENO=%d,%s:0}"%s %s' % (
            restore,
            assignments(self.options.env) + b" " if self.options.env else b"",
            b"command " if self.options.env else b"",
            prefix,
            line,
            statuses,
            save,
            redirections,
        )

    def _after(self) -> list[bytes]:
        if not self.options.cwd:
            return []
        return [b'\\builtin cd -- "${__h[11]}"||\\builtin :;OLDPWD=${__h[12]}']


def assignments(env: dict[str, str]) -> bytes:
    """`A='…' B='…'` before `builtin command eval`: they hold for the whole text, and its children
    inherit them.

    Before `builtin eval` they would hold for the first command of the text alone.
    """
    return b" ".join(
        os.fsencode(name) + b"=" + quote(os.fsencode(value)) for name, value in env.items()
    )

"""One bash that sits idle on its own channel, and the text it runs there.

Every shell of a session is the same: it takes orders from a FIFO and reports to the resident's event pipe. It knows how
to run a text (R; Q where anything goes with it, such as input; T where it may set traps), fork a copy of itself that
listens on another channel (F), and tell its exported variables (E), what its words mean (D) or its whole state (S).
Anything else ends it.
Nothing is inherited: channels, output and input are opened by path for as long as they are needed, so there is no
control descriptor that a command could close, reuse or leak.
"""

from __future__ import annotations

import fcntl
import os
import struct

from .lean import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .command import Command

FIONREAD = 0x541B
INLINE_BYTES = 512  # a longer text goes through a file in memory: bash reads a pipe byte by byte

# One line, at top level: error messages then read "bash: line 1", and `declare`, `return` and `local` mean what they
# mean in a script. for ((…)) and not while: its test is arithmetic, so it ends under `set -n` and under a DEBUG trap
# that skips commands. Only a valid order arms the next turn (__h_i, __h_o) and there is no `break`, so no redefined
# name can make it spin. A user's `break` acts on the inner loop, hence the outer one; what has to happen after a
# command stands at the top of the next turn. There every name is assigned that a command's start assigns: one made
# read-only ends the shell before it reports, so that no copy of it is ever relied on. `report && read`: with the
# resident gone, opening the FIFO would sleep for ever.
_TURN = r"""
if [[ $__h_a ]]; then builtin shopt -s expand_aliases; fi;
for ((__h_o=1; __h_o--; )); do
for ((__h_i=1; __h_i--; )); do
if [[ $__h_w ]]; then builtin cd -- "$__h_w" || builtin :; OLDPWD=$__h_v; fi;
if [[ $__h_x ]]; then command exec </dev/null >/dev/null 2>&1; fi;
__h_n=${__h[1]-0} __h=() __h_s=$__h_s __h_t= __h_u= __h_v= __h_w= __h_x= __h_y= LINENO=1
HERMETIC_COMMAND=${HERMETIC_COMMAND-};
builtin printf '\0%s %d %s %d\0' "$__h_c" "$BASHPID" "$__h_n" "$__h_s" >|"$__h_p$__h_e" &&
builtin mapfile -t -d '' -n 8 __h <"$__h_c";
case ${__h[0]-} in
"""
# Forked twice, so that the user's `$!`, `jobs` and `wait` stay clean, and into a process group of its own: a `kill 0`
# that ends the lane must not reach it. The copy parses the loop again, with aliases off.
_FORK = r"""
F) __h_i=1; if [[ ${__h[4]} ]]; then __h_k=$(builtin trap -p); fi;
( __h_f=$-; builtin set -m; ( [[ $__h_f == *m* ]] || builtin set +m;
__h_c=${__h[2]} __h_new=1 __h_a=; [[ $BASHOPTS == *expand_aliases* ]] && __h_a=1; builtin shopt -u expand_aliases;
builtin mapfile -d '' -n 1 __h_t <"$__h_p${__h[3]}"; builtin eval "$__h_t" ) & ) ;;
"""
_TELL = r"""
E) __h_i=1; builtin export -p >|"$__h_p${__h[3]}" ;;
D) __h_i=1; { builtin declare -p; builtin printf '\0'; builtin declare -f; builtin printf '\0'; builtin alias -p;
builtin printf '\0'; } >|"$__h_p${__h[3]}" ;;
S) __h_i=1; { builtin declare -p; builtin printf '\0'; builtin declare -f; builtin declare -F; builtin alias -p;
builtin umask -p; for __h_y in c d f n s t u v; do builtin printf 'builtin ulimit -S -%s %s; builtin ulimit -H -%s %s\n'
$__h_y "$(builtin ulimit -S -$__h_y)" $__h_y "$(builtin ulimit -H -$__h_y)"; done;
for ((__h_y=${#DIRSTACK[@]}; --__h_y > 0; )); do builtin printf 'builtin pushd -n %q\n' "${DIRSTACK[__h_y]}"; done;
builtin complete -p; builtin enable -n;
builtin printf 'builtin set --'; (($#)) && builtin printf ' %q' "$@"; builtin printf '\n';
builtin shopt -p; builtin set +o;
builtin trap -p; } >|"$__h_p${__h[3]}" ;;
"""
# R is the short way, of a short text without anything that goes with it: standard input stays as the shell has it, the
# null device, and the second mark was put on from outside. A subshell drops its traps and, in the background, ignores
# INT and QUIT: a copy's first command, never an R, puts them back. The first mark is exported when the shell starts;
# assigning it keeps it so and costs less. T redirects with exec, so that an EXIT trap's output is seen when the text
# ends its shell; one that is left is run at the end.
_RUN = r"""
R) __h_o=1 __h_i=1 __h_s=0 LINENO=1 HERMETIC_COMMAND=$__h_m.${__h[1]};
builtin eval "${__h[3]}" >|"$__h_p${__h[2]}" 2>&1;
__h_s=$? ;;
Q|T) if [[ $__h_new ]]; then __h_new=; builtin trap - INT QUIT; builtin eval "$__h_k"; fi;
if [[ ${__h[5]} == @* ]]; then builtin mapfile -d '' -n 1 __h_t <"$__h_p${__h[5]#@}"; else __h_t=${__h[5]# }; fi;
if [[ ${__h[7]} ]]; then __h_u=$__h_t; builtin mapfile -d '' -n 1 __h_t <"$__h_p${__h[7]}"; fi;
if [[ ${__h[6]} ]]; then __h_w=$PWD __h_v=${OLDPWD-};
builtin cd -- "${__h[6]}" ||
__h_t='builtin printf "hermetic: cannot enter the directory\n" >&2; ( builtin exit 126 )'; fi;
if ((__h_q)); then builtin ulimit -S -q $((__h_q - ${__h[1]} % 400000)) || builtin :; fi;
__h_o=1 __h_i=1 __h_s=0 LINENO=1 HERMETIC_COMMAND=$__h_m.${__h[1]};
case ${__h[0]} in
Q) builtin eval "$__h_t" <"$__h_p${__h[2]}" >|"$__h_p${__h[3]}" 2>|"$__h_p${__h[4]}";
__h_s=$? __h_t= __h_u= ;;
*) __h_x=1; command exec <"$__h_p${__h[2]}" >|"$__h_p${__h[3]}" 2>|"$__h_p${__h[4]}"; LINENO=1;
builtin eval "$__h_t";
__h_s=$? __h_u=; __h_t=$(builtin trap -p EXIT);
if [[ $__h_t ]]; then builtin trap - EXIT; builtin eval "__h_y=($__h_t)"; ( builtin exit "$__h_s" );
builtin eval "${__h_y[2]}"; fi;
__h_t= ;; esac ;;
"""
_END = r"""
*) __h_o=0 ;;
esac; done; done
"""
LOOP = " ".join((_TURN + _RUN + _FORK + _TELL + _END).split("\n")).strip()

# $1 where descriptors are found, $2 events, $3 channel, $4 the loop, $5 the mark, $6 the second mark's base, $7 a state
# to take in or "".
START = (
    "__h_p=$1 __h_e=$2 __h_c=$3 __h_l=$4 __h_m=$5 __h_q=$6 __h_t=$7 __h_s=0 __h_new= __h_k= __h_w= "
    "__h_v= __h_x= __h_u= __h_a=1; "
    'builtin shift "$#"; builtin export HERMETIC_COMMAND=$__h_m.0; '
    'if [[ $__h_t ]]; then builtin source "$__h_p$__h_t"; [[ $BASHOPTS == *expand_aliases* ]] || __h_a=; '
    "else builtin set +eu; fi; "
    'builtin shopt -u expand_aliases; builtin mapfile -d \'\' -n 1 __h_t <"$__h_p$__h_l"; builtin eval "$__h_t"'
)


def in_memory(data: bytes) -> int:
    """A descriptor of a file without a name; each opening by path starts at byte 0."""
    fd = os.memfd_create("hermetic", os.MFD_CLOEXEC)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class Shell:
    """One bash, idle or busy, and its channel.

    The channel's name is never used twice, so that a copy that is forked late finds no file.
    """

    def __init__(self, path: str, age: int, depth: int) -> None:
        self.path, self.age = path, age
        self.channel = os.fsencode(path)  # the path as shells know it
        self.depth = depth  # how many forks lie between this shell and a bash that was started
        self.starting = False  # a first bash that still reads its profile
        self.has_run = False  # a command, the first of which may have to put traps back
        self.last_order_bytes = 0
        os.mkfifo(path, 0o600)
        try:
            self.fd: int | None = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            os.unlink(path)
            raise
        self.pid: int | None = None
        self.command: Command | None = None
        self.answers: dict[int, Callable[[bool], None]] = {}  # number of an order that is no command: callback(alive)

    def __repr__(self) -> str:
        return "<Shell %s: pid %s, %s>" % (self.path, self.pid, "busy" if self.command else "idle")

    def send(self, verb: bytes, number: int, *fields: bytes) -> None:
        assert self.fd is not None, "the shell was dropped"
        order = [verb, b"%d" % number] + list(fields) + [b""] * (6 - len(fields))
        self.last_order_bytes = os.write(self.fd, b"\0".join(order) + b"\0")

    def unread_bytes(self) -> int:
        """Orders that were never begun: a shell reads an order whole before it acts on it."""
        assert self.fd is not None, "the shell was dropped"
        count: int = struct.unpack("i", fcntl.ioctl(self.fd, FIONREAD, bytes(4)))[0]
        return count

    def restore(self, descriptors_path: str) -> None:
        """Give its channel a name again, once a cleaner has removed it. Raises OSError."""
        if self.fd is not None and not os.path.lexists(self.path):
            os.symlink("%s%d" % (descriptors_path, self.fd), self.path)

    def drop(self, kill: bool = True) -> None:
        if self.fd is None:
            return
        if kill and self.pid is not None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.close(self.fd)
        self.fd = None
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass

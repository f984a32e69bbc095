r"""What is told to a bash in a place that has nothing else.

A bash there reads its order from its standard input: one line that says how many bytes each field has, then the fields.
The first field is the script to run; nothing of an order is ever in anybody's arguments. What a script has to tell goes
between two copies of a token that only it and the resident know, so that a command's output cannot be taken for it.
"""

from __future__ import annotations

from ..shells.orders import STATE, state_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Read by the bash that was started, which reads itself from its input and must not do more than that: it makes room for
# another. Kept apart from the fields: what LC_ALL was. In the C locale a character is a byte.
_HEADER = (
    b'exec "$BASH" --norc --noprofile -c \'[[ -v LC_ALL ]] && __h_l=$LC_ALL; LC_ALL=C; for __h_n; do __h_x=; '
    b'((__h_n)) && IFS= read -rN "$__h_n" __h_x; __h+=("$__h_x"); done; set --; eval "${__h[0]}"\' bash %s\n'
)


def order(script: str, *fields: bytes) -> bytes:
    """The input of a bash that runs the script with these fields as `${__h[1]}` and so on."""
    whole: Sequence[bytes] = (script.encode(), *fields)
    return b"".join((_HEADER % b" ".join(b"%d" % len(field) for field in whole), *whole))


# Starts one program and tells of it; output goes through `cat`, so that this bash can stay until whoever holds the
# output has gone: some ways in cut everything off when the program they started ends.
#
# Fields: 1 token, 2 mark, 3 second mark, 4 directory, 5 flags, 6 loader, 7 options of the bash that runs it, 8 state,
# 9 text, 10 a text around it, 11… an argv where there is no loader.
# Flags: e the directory itself or nothing, s errors apart, i input is ours, c nothing of the place's variables, and the
# loader's own: R, T or L.
# Descriptors: 9 what we tell, 6 the input, 5 output, 4 errors, 7 the state, 8 what the loader reads, 3 a pipe to be.
# Records: C the directory it is in, B its pid, S the state it leaves, E status and x (exited) or s (by a signal).
SUPERVISE = r"""
__h_t=$'\377'${__h[1]} __h_d=${__h[4]} __h_f=${__h[5]} __h_s=126 __h_j=x __h_e=
exec 9>&2 2>/dev/null 6<&0 </dev/null
__h_say() { printf '%s%s%s' "$__h_t" "$1" "$__h_t" >&9; }

# A pipe is the reading end that a process substitution leaves, and a writing end opened by its path.
__h_a=/proc/$$/fd/3
exec 3< <(:) 5>"$__h_a"; cat <&3 5>&- 6<&- & __h_o=$!
if [[ $__h_f == *s* ]]; then
  # Not our child: a wait for a child that was stopped once does not wait. Its end is that of a pipe it holds.
  exec 3< <(:) 4>"$__h_a" {__h_r}< <(:)
  __h_e=$(cat <&3 >&9 2>"/proc/$$/fd/$__h_r" 4>&- 5>&- 6<&- & printf %s $!)
fi
exec 3< <(:) 7>"$__h_a"
if IFS= read -rN1 __h_x; then
  # Whoever else writes to the same stream stands still meanwhile.
  if [[ $__h_e ]]; then
    kill -STOP "$__h_e"
    while IFS= read -r __h_y <"/proc/$__h_e/stat" && [[ $__h_y != *') '[TZX]* ]]; do :; done
  fi
  printf '%sS%s' "$__h_t" "$__h_x" >&9; cat >&9; printf %s "$__h_t" >&9
  [[ $__h_e ]] && kill -CONT "$__h_e"
else __h_say S; fi <&3 4>&- 5>&- 6<&- 7>&- & __h_p=$!
exec 3<&-

__h_start() {
  trap - CHLD INT QUIT
  exec {__h_n}<&-
  [[ $__h_e ]] && exec {__h_r}<&-
  if [[ $__h_f == *c* ]]; then unset $(compgen -e); elif [[ -v __h_l ]]; then LC_ALL=$__h_l; else unset LC_ALL; fi
  export HERMETIC_COMMAND=${__h[2]}
  [[ ${__h[3]} ]] && ulimit -S -x "${__h[3]}"
  __h_say "B$BASHPID"
  if [[ ${__h[6]} ]]; then
    exec >/dev/null 4>&- 5>&- 7>&- 9>&-
    [[ $__h_f == *L* ]] && eval "${__h[8]}"
    # Without them bash would ask for the user's entry, wherever that is kept. The state sets or unsets them.
    [[ $__h_f == *c* ]] && export HOME=/ SHELL=$BASH
    exec "$BASH" --norc ${__h[7]} -c "${__h[6]}" bash "/proc/$$/fd/" "$__h_f"
  fi
  eval "${__h[8]}"
  if [[ $__h_e ]]; then exec >&5 2>&4; else exec >&5 2>&5; fi
  exec 4>&- 5>&- 7>&- 9>&-
  exec -- "${__h[@]:11}"
}

__h_a=
if [[ ! $__h_d ]]; then __h_a=1
elif [[ $__h_f == *e* ]]; then cd -P -- "$__h_d" && __h_a=1 || printf 'hermetic: cannot enter %s\n' "$__h_d" >&5
else __h_a=1; until cd -P -- "$__h_d"; do __h_d=${__h_d%/*} __h_d=${__h_d:-/}; done; fi
__h_say "C$PWD"
if [[ $__h_a ]]; then
  if [[ ${__h[6]} ]]; then
    exec 8< <(exec 4>&- 5>&- 6<&- 7>&- 9>&-; printf '%d %d %d %d\n%s%s%s%s' \
      ${#__h_d} ${#__h[10]} ${#__h[8]} ${#__h[9]} "$__h_d" "${__h[10]}" "${__h[8]}" "${__h[9]}")
  fi
  # How it ended, two things tell: the table of jobs when a child has ended, and what bash says of one that was killed.
  # Alone each would miss some.
  exec {__h_n}< <(:)
  __h_a=/proc/$$/fd/$__h_n
  trap 'jobs -l >"$__h_a"' CHLD
  exec 2>"$__h_a"
  set -m
  if [[ $__h_f == *i* ]]; then __h_start <&6 6<&- 2>/dev/null & else __h_start 6<&- 2>/dev/null & fi
  __h_u=$!
  set +m
  exec 6<&- 8<&-
  cd /
  wait "$__h_u"
  __h_s=$?
  trap - CHLD
  exec 2>/dev/null
  while ((__h_s > 128)) && IFS= read -r -u "$__h_n" __h_x; do
    [[ $__h_x =~ \ $__h_u\ +([A-Z][a-z]*) && ! ${BASH_REMATCH[1]} =~ ^(Exit|Done|Running|Stopped)$ ]] && __h_j=s
  done
fi
exec 7>&-
wait "$__h_p"
__h_say "E$__h_s $__h_j"
printf '%s%s' "$__h_t" "$__h_t" >&5
if [[ $__h_e ]]; then printf '%s%s' "$__h_t" "$__h_t" >&4; fi
exec 4>&- 5>&-
if [[ $__h_e ]]; then while read -r -u "$__h_r"; do :; done; fi
wait "$__h_o"
"""

# Runs in a fresh bash of its own: takes the state in, evaluates the text, and tells the state it leaves where the text
# came back. One line, read before any of it runs: nothing in the state or the text can change its meaning. $1 is where
# the descriptors of the one who started it are found, $2 the flags.
_LOAD = r"""
__h_p=$1 __h_m=$2 __h_w= __h_u= __h_s= __h_t=: __h_y=; builtin shift "$#";
if [[ $__h_m == *L* ]]; then builtin set +eu; builtin shopt -s expand_aliases; else
LC_ALL=C; builtin read -r __h_a __h_b __h_c __h_d <&8;
((__h_a)) && IFS= builtin read -rN "$__h_a" __h_w <&8; ((__h_b)) && IFS= builtin read -rN "$__h_b" __h_u <&8;
((__h_c)) && IFS= builtin read -rN "$__h_c" __h_s <&8; __h_t=; ((__h_d)) && IFS= builtin read -rN "$__h_d" __h_t <&8;
exec 8<&-; builtin unset LC_ALL;
if [[ $__h_w ]]; then builtin cd -L -- "$__h_w"; fi;
builtin eval "$__h_s" || builtin :;
if [[ $__h_u ]]; then __h_s=$__h_t __h_t=$__h_u __h_u=$__h_s; fi; fi;
__h_x=5; if [[ $__h_m == *s* ]]; then __h_x=4; fi;
__h_s=0 LINENO=1;
"""
# T redirects with exec, so that the output of a trap on EXIT is seen.
_EVALUATE = r"""
if [[ $__h_m == *T* ]]; then command exec >|"${__h_p}5" 2>|"$__h_p$__h_x"; LINENO=1; builtin eval "$__h_t";
else builtin eval "$__h_t" >|"${__h_p}5" 2>|"$__h_p$__h_x"; fi;
__h_s=$? __h_t= __h_u=;
"""
# Nothing is told where the next bash could not take a text in. It ends with a dot, so that half of one is not taken
# for a state. A trap on EXIT stays for this bash's own end.
_TELL = (
    "builtin eval : && builtin exec && builtin command : && "
    + state_report(
        b'"${__h_p}7"',
        b"\\builtin pwd -L;\\builtin printf '\\0';\\builtin pwd -P || \\builtin printf '%s\\n' \"$PWD\"",
        b"\\builtin printf '\\0';\\builtin export -p;\\builtin printf '\\0'",
        *STATE,
    ).decode()
    + " 2>/dev/null; builtin exit $__h_s"
)
LOADER = " ".join((_LOAD + _EVALUATE).split("\n")).strip() + " " + _TELL


# Stays as long as the resident does. Looks at the processes of the place and ends them, with builtins alone; when its
# input ends, because the resident or the way to it is gone, it ends all that is ours and itself. What belongs to a
# command: what carries its number as a soft limit on file locks, which the kernel keeps and does not use, or its mark
# in its environment, and what hangs below and carries no other.
#
# Fields: 1 the resident's id, 2 the high part of its second marks or "", 3 a directory that has to exist, or "".
# It first says what the place is like, then answers each request `ID VERB ARGUMENT SUBJECT` with `ID TEXT`, each ended
# by NUL. A subject is a number and the pid of its first process, or `*` for all that is ours.
KEEP = r"""
exec 2>/dev/null
trap '' HUP INT QUIT TERM PIPE
ID=${__h[1]} LOCKS=${__h[2]} IFS=' '
declare -A own asked parent

# Whoever we hang below is never ours, whatever he carries: not the first process, and not ourselves.
declare -A spared=([1]=1)
for ((pid = $$; pid > 1; )); do
  spared[$pid]=1 s=
  IFS= read -rN 4096 s <"/proc/$pid/stat"
  s=${s##*') '} s=${s#* } pid=${s%% *}
done

walk() {
  local p pid s e l n changed wanted=${1%+*} root=
  [[ $1 == *+* ]] && root=${1#*+}  # a number alone is no pid: that of another process could be the same
  local -A number=()
  own=() parent=()
  for p in /proc/[0-9]*; do
    s= e= l= n= pid=${p#/proc/}
    IFS= read -rN 4096 s <"$p/stat"
    s=${s##*') '}
    [[ ! $s || $s == [ZX]' '* ]] && continue
    [[ ${spared[$pid]-} ]] && continue
    s=${s#* } parent[$pid]=${s%% *}
    [[ $LOCKS ]] && IFS= read -rN 4096 l <"$p/limits"
    if [[ $l =~ 'file locks'\ +([0-9]+) ]] && ((BASH_REMATCH[1] >> 28 == LOCKS)); then
      n=$((BASH_REMATCH[1] & 0xfffffff))
    elif IFS= read -rN 4000000 e <"$p/environ"; [[ $e == *HERMETIC_COMMAND="$ID".[0-9]* ]]; then
      n=${e##*HERMETIC_COMMAND="$ID".} n=${n%%[!0-9]*}
    fi
    number[$pid]=$n
    [[ $pid == "$root" || $n && ( $wanted == '*' || $wanted == "$n" ) ]] && own[$pid]=1
  done
  for ((changed = 1; changed; )); do
    changed=0
    for pid in "${!number[@]}"; do
      if [[ ! ${number[$pid]} && ! ${own[$pid]-} && ${own[${parent[$pid]}]-} ]]; then own[$pid]=1 changed=1; fi
    done
  done
}

dies_of_term() {
  local name mask
  while IFS=$'\t' read -r name mask; do
    [[ $name == Sig@(Ign|Cgt): ]] && ((16#$mask >> 14 & 1)) && return 1
  done <"/proc/$1/status"
}

# TERM to whom it is new, and again to whom it would end: one between a fork and its exec is lost. Parents have it
# before their children: a shell whose child ends first would go on with its next command. Nobody is stopped for that:
# to who stands still when his group loses its leader, the kernel sends HUP.
ask_to_end() {
  local pid new=() found
  local -A left=()
  walk "$1"
  for pid in "${!own[@]}"; do
    if [[ ! ${asked[$pid]-} ]] || dies_of_term "$pid"; then asked[$pid]=1 left[$pid]=1; fi
  done
  while ((${#left[@]})); do
    found=()
    for pid in "${!left[@]}"; do [[ ${left[${parent[$pid]:-0}]-} ]] || found+=("$pid"); done
    ((${#found[@]})) || found=("${!left[@]}")
    for pid in "${found[@]}"; do unset "left[$pid]"; done
    new+=("${found[@]}")
  done
  if ((${#new[@]})); then kill -TERM "${new[@]}"; kill -CONT "${new[@]}"; fi
}

# Stops who is new until nobody is, so that nobody can fork away unseen; then kills, until none is left.
finish() {
  local pid turn
  local -A frozen=()
  for ((turn = 0; turn < 300; turn++)); do
    walk "$1"
    ((${#own[@]})) || break
    local new=()
    for pid in "${!own[@]}"; do [[ ${frozen[$pid]-} ]] || new+=("$pid"); done
    if ((${#new[@]})); then kill -STOP "${new[@]}"; for pid in "${new[@]}"; do frozen[$pid]=1; done
    else kill -KILL "${!own[@]}"; fi
  done
  asked=()
}

look_at() {
  if [[ -d $1 && -x $1 ]]; then told=
  elif [[ -d $1 ]]; then told='cannot be entered'
  elif [[ -e $1 ]]; then told='is not a directory'
  else told='does not exist'; fi
}

told= p=${__h[3]}
[[ $p == '~' || $p == '~/'* ]] && p=${HOME-/}${p:1}
[[ $p ]] && look_at "$p"
[[ -e /proc/$$/stat ]] || told='has no /proc'
printf '%s\0' "$told" "$BASH" "$BASH_VERSION" "$PWD" "${HOME-/}" "$(ulimit -H -x)"
while IFS=' ' read -r -d '' id verb argument subject; do
  case $verb in
    look) look_at "$subject" ;;
    list) walk "$subject"; told="${!own[*]}" ;;
    tell) walk "$subject"; ((${#own[@]})) && kill "-$argument" "${!own[@]}"; told= ;;
    one) [[ ${spared[$subject]-} ]] || kill "-$argument" "$subject"; told= ;;
    ask) ask_to_end "$subject"; told="${!own[*]}" ;;
    end) finish "$subject"; told="${!own[*]}" ;;
  esac
  printf '%s %s\0' "$id" "$told"
done
finish '*'
"""

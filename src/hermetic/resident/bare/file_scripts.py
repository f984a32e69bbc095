r"""Files of a place that has only bash and the usual tools: what is told to the bash that reads or changes one.

A directory is entered first, and the kernel asked where that is: whatever becomes of the names above it later, the file
is then one of that directory. What a script tells is between two tokens: `!KIND TEXT` when it cannot be done, `+PATH`
for a directory it made, and at last `=SIZE MODE MTIME SIGNATURE CREATED PATH`.
"""

from __future__ import annotations

# Fields: 1 token, 2 path, 3 root or "", 4 patterns of what is denied, each ended by a newline, 5 m: missing directories
# are made, l: a link at the end is not followed, x: no link is, 6 the expected signature, or - for any.
SETTLE = r"""
__h_t=$'\377'${__h[1]} p=${__h[2]} asked=${__h[2]} root=${__h[3]} how=${__h[5]} expect=${__h[6]}
unset CDPATH
mapfile -t deny <<<"${__h[4]%$'\n'}"
say() { printf '%s%s%s' "$__h_t" "$1" "$__h_t" >&2; }
refuse() { say "!$1"; exit; }
here() { w=$(readlink "/proc/$$/cwd" && printf .) w=${w%$'\n.'} w=${w%/}; }
fail() {
  local d=$asked
  while d=${d%/*}; [[ $d && ! -e $d ]]; do :; done
  if [[ ! -d ${d:-/} ]]; then refuse 'NotADirectoryError Not a directory'
  elif [[ -d $asked ]]; then refuse 'IsADirectoryError Is a directory'
  elif [[ $2 && ! -e $asked ]]; then refuse 'FileNotFoundError No such file or directory'
  elif [[ -e $asked && ! -r $asked || ! $2 && ! -w ${d:-/} ]]; then refuse 'PermissionError Permission denied'
  else refuse "OSError ${1:-it cannot be done}"; fi
}
bound() {
  local x
  if [[ $how == *x* && $1 != "$asked" ]]; then
    refuse "FileChanged $asked leads elsewhere by now: look at it again, then decide anew"
  fi
  if [[ $root && $1 != "$root"/* ]]; then
    refuse "NotPermitted $1 is outside of $root, and nothing may be written there; choose a path below it"
  fi
  for x in "${deny[@]}"; do
    [[ $x && $1 == $x ]] && refuse "NotPermitted $1 is protected: ask the user to do it, or use another path"
  done
}
enter() {
  local d=$1 x rest=
  cd -P -- "$d" 2>/dev/null && return
  [[ $how == *m* ]] || fail '' 1
  until [[ -e $d || -L $d ]]; do rest=${d##*/}/$rest d=${d%/*} d=${d:-/}; done
  cd -P -- "$d" 2>/dev/null || fail ''
  while [[ $rest ]]; do
    x=${rest%%/*} rest=${rest#*/}
    here; bound "$w/$x/$rest$n"
    mkdir -- "./$x" 2>/dev/null && say "+$w/$x"
    cd -P -- "./$x" 2>/dev/null || fail ''
  done
}
settle() {
  local i t
  for ((i = 0; i < 40; i++)); do
    d=${p%/*} n=${p##*/}
    enter "${d:-/}"; here
    if [[ -L ./$n && $how != *l* ]]; then
      t=$(readlink "./$n" && printf .) t=${t%$'\n.'}
      if [[ $t == /* ]]; then p=$t; else p=$w/$t; fi
      while [[ $p == */ && $p != / ]]; do p=${p%/}; done
      [[ ${p##*/} == . || ${p##*/} == .. ]] && p=$(readlink -f "$p")
      continue
    fi
    p=$w/$n; bound "$p"; return
  done
  refuse 'OSError Too many levels of symbolic links'
}
sign() { g=; if [[ -e ./$1 || -L ./$1 ]]; then g=$(stat -c '%i-%s-%y' "./$1") g=${g// /_}; fi; }
changed() { refuse "FileChanged $p has changed since it was read: read it again, then decide anew"; }
unchanged() {
  sign "$n"
  [[ $expect == - || $g == "$expect" ]] || changed
}
tell() {
  local i
  i=$(stat $2 -c '%s %f %Y' "./$n" 2>&1) || fail "$i" 1
  sign "$n"
  say "=$i ${g:--} $1 $p"
}
if [[ $root ]]; then
  cd -P -- "$root" 2>/dev/null || refuse "FileNotFoundError $root: No such file or directory"
  here; root=$w
fi
"""

# Fields besides: 7 offset, 8 the most bytes.
READ = (
    SETTLE
    + r"""
[[ -d $p ]] && refuse 'IsADirectoryError Is a directory'
settle
[[ -r ./$n && ! -d ./$n ]] || fail 'cannot be read' 1
if [[ -p ./$n || -S ./$n ]]; then say "=0 1000 0 - 0 $p"; exit; fi
tell 0 -L
if ((${__h[7]})); then tail -c +$((${__h[7]} + 1)) "./$n" | head -c "${__h[8]}"; else head -c "${__h[8]}" "./$n"; fi
"""
)

# Fields besides: 7 the first line, 8 how many, 9 the most bytes of each, 10 the most of all. Tells `#` and how many
# newlines there are, 1 if the last byte is one, 1 if there is a NUL. The first 64 bytes come before the lines.
LINES = (
    SETTLE
    + r"""
[[ -d $p ]] && refuse 'IsADirectoryError Is a directory'
settle
[[ -r ./$n && ! -d ./$n ]] || fail 'cannot be read' 1
if [[ ! -f ./$n ]]; then say "=0 1000 0 - 0 $p"; exit; fi
a=$(head -c 8192 "./$n" | wc -c) b=$(head -c 8192 "./$n" | tr -d '\0' | wc -c)
say "#$(wc -l <"./$n") $(tail -c 1 "./$n" | wc -l) $((a != b))"
head -c 64 "./$n"
((a != b)) || tail -n "+${__h[7]}" "./$n" | head -n "${__h[8]}" | cut -b "1-${__h[9]}" | head -c "${__h[10]}"
tell 0 -L
"""
)

# Tells nothing of a directory; its names come, each ended by NUL.
NAMES = (
    SETTLE
    + r"""
cd -P -- "$p" 2>/dev/null || fail '' 1
here; p=${w:-/} n=.; bound "$p"
shopt -s nullglob dotglob
f=(*)
((${#f[@]})) && printf '%s\0' "${f[@]:0:${__h[7]}}"
tell 0
"""
)

# Time, size and name of each file below a directory, by lines; of a file, of that one. Nothing of hidden directories.
FIND = (
    SETTLE
    + r"""
if [[ -d $p ]]; then
  cd -P -- "$p" 2>/dev/null || fail '' 1
  here; p=${w:-/} n=.; bound "$p"; bound "$w/."
  d=/ s=${p#/}
  while [[ $s ]]; do
    for x in .rgignore .ignore .gitignore; do [[ -f $d$x ]] && say "I$d$x"$'\n'"$(tr -d '\0' <"$d$x")"; done
    [[ -e $d.git ]] && say "I$d.git"
    d=$d${s%%/*}/
    if [[ $s == */* ]]; then s=${s#*/}; else s=; fi
  done
  find . -name .git -prune -exec stat -c '%Y 0 %n' {} + -o -type d -name '.?*' -prune \
    -o -type f -exec stat -c '%Y %s %n' {} + 2>/dev/null
else settle; [[ -f ./$n && -r ./$n ]] || fail 'cannot be read' 1; stat -c '%Y %s %n' "./$n"; fi
tell 0
"""
)

# An archive of the files whose names follow as input, each ended by NUL, below the directory of the path.
FETCH = (
    SETTLE
    + r"""
[[ -d $p ]] || p=${p%/*}
cd -P -- "${p:-/}" 2>/dev/null || fail '' 1
here; p=${w:-/} n=.
exec 3>&1
xargs -0 tar -cf - 2>/dev/null
tell 0
"""
)

STATUS = (
    SETTLE
    + r"""
if [[ -d $p ]]; then cd -P -- "$p" 2>/dev/null || fail '' 1; here; p=${w:-/} n=.; bound "$p"
elif [[ ${__h[7]} && ! -e $p ]]; then
  d=$p rest=
  until [[ -e $d || -L $d ]]; do rest=/${d##*/}$rest d=${d%/*} d=${d:-/}; done
  if cd -P -- "$d" 2>/dev/null; then here; p=$w$rest; else p=$(readlink -f "$d")$rest; fi
  bound "$p"; say "=0 0 0 - 0 $p"; exit
else settle; [[ -e ./$n || -L ./$n ]] || fail '' 1; fi
tell 0
"""
)

# Fields besides: 7 size of the content that follows as input, 8 mode or "", 9 a name.
WRITE = (
    SETTLE
    + r"""
[[ -d $p ]] && refuse 'IsADirectoryError Is a directory'
settle; unchanged
m=${__h[8]} a=.hermetic-${__h[9]} c=1 o=
if [[ -e ./$n ]]; then
  [[ -f ./$n ]] || refuse "PermissionError it is a device, a socket or a pipe, not a file: nothing was written"
  [[ -w ./$n ]] || refuse 'PermissionError Permission denied'
  c=0 o=$(stat -c %u:%g "./$n")
  [[ $m ]] || m=$(stat -c %a "./$n")
fi
[[ $m ]] || printf -v m %o $((0666 & ~0$(umask)))
put() { if [[ ! $expect ]]; then ln "./$a" "./$n" && rm -f "./$a"; else mv -fT "./$a" "./$n"; fi; }
if i=$( { umask 077; set -C; cat >"./$a"; } 2>&1 ) && [[ $(stat -c %s "./$a") == "${__h[7]}" ]]; then
  [[ ! $o ]] || chown "$o" "./$a" 2>/dev/null || m=${m: -3}
  if i=$(chmod "$m" "./$a" 2>&1); then
    unchanged() { sign "$n"; [[ $expect == - || $g == "$expect" ]]; }
    if unchanged && i=$(put 2>&1); then tell $c; exit; fi
    rm -f "./$a"; unchanged || changed
  fi
fi
rm -f "./$a"; fail "${i:-it was cut off}"
"""
)

DELETE = (
    SETTLE
    + r"""
settle; unchanged
[[ -e ./$n || -L ./$n ]] || fail '' 1
[[ -d ./$n && ! -L ./$n ]] && refuse 'IsADirectoryError Is a directory'
i=$(rm -f "./$n" 2>&1) || fail "$i"
say "=0 0 0 - 0 $p"
"""
)

# Fields besides: 7 the other path, 8 r: what is there is replaced.
MOVE = (
    SETTLE
    + r"""
settle; unchanged
[[ -e ./$n || -L ./$n ]] || fail '' 1
[[ -d ./$n && ! -L ./$n ]] && refuse 'IsADirectoryError Is a directory'
exec 3<.
from=/proc/$$/fd/3/$n p=${__h[7]} asked=${__h[7]} how=ml${how//[!x]/}
settle
[[ -d ./$n ]] && refuse 'IsADirectoryError Is a directory'
if [[ ${__h[8]} ]]; then i=$(mv -fT "$from" "./$n" 2>&1) || fail "$i"
else
  [[ -e ./$n || -L ./$n ]] && changed
  i=$(ln "$from" "./$n" 2>&1) && rm -f "$from" || fail "$i"
fi
tell 1
"""
)

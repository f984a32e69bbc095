"""State of every kind is carried from one command of a session to the next."""

import pytest

from hermetic import Environment, Session
from hermetic.conformance.observing import output_of

CARRIED = {
    "an exported variable": ("export A='two  words'", "bash -c 'echo \"$A\"'", "two  words\n"),
    "a variable that is not exported": ("a=1", 'echo "$a"; bash -c \'echo "[$a]"\'', "1\n[]\n"),
    "a value with quotes, newlines and unicode": (
        "v=$'it\\'s \"so\"\\n\\tß€'",
        'printf %s "$v"',
        'it\'s "so"\n\tß€',
    ),
    "an array": ("a=(1 'two words' 3)", 'echo "${#a[@]} ${a[1]}"', "3 two words\n"),
    "an associative array": ("declare -A m=([x]=1 ['y z']=2)", 'echo "${m[x]} ${m[y z]}"', "1 2\n"),
    "an integer attribute": ("declare -i n=1", "n+=1; echo $n", "2\n"),
    "a function": ('f() { echo "f $1"; }', "f x", "f x\n"),
    "a function whose name starts with an underscore": ("_f() { echo under; }", "_f", "under\n"),
    "an exported function": ("g() { echo g; }; export -f g", "bash -c g", "g\n"),
    "an alias": ("alias hi='echo hello'", "hi you", "hello you\n"),
    "an option": ("set -o pipefail", "false | true; echo $?", "1\n"),
    "a shell option": ("shopt -s nullglob", "echo /nowhere/*", "\n"),
    "noclobber": ("set -C", "set -o | grep noclobber | tr -s '\\t ' ' '", "noclobber on\n"),
    "the umask": ("umask 027", "umask", "0027\n"),
    "the positional parameters": ("set -- a 'b c'", 'echo "$# $2"', "2 b c\n"),
    "a trap": ("trap 'echo caught' USR1", "kill -USR1 $BASHPID; :", "caught\n"),
    "a read-only variable": (
        "readonly r=5",
        "echo $r; (r=6) 2>/dev/null || echo kept",
        "5\nkept\n",
    ),
    "an unset variable that was inherited": ("unset HOME", 'echo "[${HOME-gone}]"', "[gone]\n"),
    "a limit": ("ulimit -Sn 77", "ulimit -Sn", "77\n"),
    "the directory stack": ("cd /; pushd /tmp >/dev/null", "popd >/dev/null; pwd", "/\n"),
    "the last directory": ("cd /tmp; cd /", "cd - >/dev/null; pwd", "/tmp\n"),
}


@pytest.mark.parametrize(("first", "second", "output"), CARRIED.values(), ids=CARRIED.keys())
async def test_it_is_there_in_the_next_command(
    shell: Session, first: str, second: str, output: str
) -> None:
    made = await shell.run(first)
    assert (made.exit_code, made.output) == (0, "")
    assert (await shell.run(second)).output == output


@pytest.mark.parametrize(("first", "second", "output"), CARRIED.values(), ids=CARRIED.keys())
async def test_it_outlives_a_command_that_ends_the_shell(
    shell: Session, first: str, second: str, output: str
) -> None:
    await shell.run(first)
    assert (await shell.run("exit 3")).exit_code == 3
    assert (await shell.run(second)).output == output


async def test_the_cwd_is_carried_and_told(shell: Session, directory: str) -> None:
    assert (await shell.run(f"cd '{directory}'; mkdir 'a b'; cd 'a b'")).cwd == f"{directory}/a b"
    assert (await shell.run("pwd")).output == f"{directory}/a b\n"
    assert (await shell.state()).cwd == f"{directory}/a b"


async def test_state_tells_the_exported_variables(shell: Session) -> None:
    await shell.run("export SHOWN='x y'; HIDDEN=1")
    env = (await shell.state()).env
    assert env["SHOWN"] == "x y"
    assert "HIDDEN" not in env


async def test_an_open_descriptor_is_carried(shell: Session, directory: str) -> None:
    await shell.run(f"exec 5>'{directory}/f'; exec {{named}}>'{directory}/g'")
    await shell.run("echo one >&5; echo two >&$named")
    await shell.run("exit 1")
    await shell.run("echo three >&5")
    assert (await shell.run(f"cat '{directory}/f' '{directory}/g'")).output == "one\nthree\ntwo\n"


async def test_a_background_job_can_be_waited_for_in_a_later_command(shell: Session) -> None:
    await shell.run('way=$(mktemp -u); mkfifo "$way"; (read -r _ <"$way"; exit 7) &')
    assert (await shell.run("jobs -p | wc -l")).output.strip() == "1"
    assert (await shell.run('echo >"$way"; rm "$way"; wait $!; echo $?')).output == "7\n"


async def test_a_job_can_be_killed_by_its_number_in_a_later_command(shell: Session) -> None:
    await shell.run("sleep 300 &")
    assert (await shell.run("kill %1; wait $!; echo $?")).output == "143\n"


async def test_a_job_lives_on_when_a_later_command_ends_the_shell(shell: Session) -> None:
    await shell.run("sleep 300 & pid=$!")
    await shell.run("exit 1")
    assert (await shell.run("kill -0 $pid && echo lives; kill $pid")).output == "lives\n"


async def test_commit_or_roll_back_is_one_rule(shell: Session) -> None:
    before = await shell.run("cd /; v=old")
    result = await shell.run("cd /tmp; v=new; export W=1; exit 3")
    assert result.exit_code == 3
    assert result.cwd == before.cwd == "/"
    assert any("restored" in note for note in result.notes), result.notes
    assert (await shell.run('echo "$v[$W]$PWD"')).output == "old[]/\n"


async def test_a_command_that_keeps_its_shell_has_no_notes(shell: Session) -> None:
    await shell.run("true")
    assert (await shell.run("v=1; cd /tmp; false")).notes == ()


async def test_sessions_do_not_share_state(env: Environment, shell: Session) -> None:
    other = env.session(f"{shell.name}-b")
    await shell.run("v=mine; cd /tmp; f() { :; }")
    assert (await other.run('echo "[$v]"; type -t f')).output == "[]\n"
    await other.run("v=other")
    assert (await shell.run("echo $v $PWD")).output == "mine /tmp\n"
    await other.close()


async def test_a_session_is_the_same_by_the_same_name(env: Environment, shell: Session) -> None:
    await shell.run("v=here")
    assert (await env.session(shell.name).run("echo $v")).output == "here\n"


async def test_a_closed_session_starts_afresh(shell: Session) -> None:
    await shell.run("v=1")
    await shell.close()
    assert (await shell.run('echo "[$v]"')).output == "[]\n"


async def test_large_state_is_carried(shell: Session) -> None:
    made = await shell.run(
        'for ((i = 0; i < 500; i++)); do eval "f$i() { : $(printf %01000d $i); echo $i; }"; done; '
        "printf -v big %05000000d 7; a=({1..20000})"
    )
    assert made.exit_code == 0
    await shell.run("exit 1")
    assert (await shell.run("f0; f499; echo ${#big} ${#a[@]}")).output == "0\n499\n5000000 20000\n"


async def test_processes_see_cwd_and_exports_but_change_nothing(
    shell: Session, directory: str
) -> None:
    await shell.run(f"cd '{directory}'; export E=1; n=2")
    process = await shell.start('pwd; echo "$E[$n]"; cd /; export E=9')
    assert await output_of(process) == f"{directory}\n1[]\n".encode()
    assert (await shell.run("echo $E $PWD")).output == f"1 {directory}\n"

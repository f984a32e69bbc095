"""Output is only output: nothing that a command prints is taken for word from its shell, and
nothing holds the call.
"""

import time

import pytest

import hermetic

FORGERIES = {
    "a shell's report": r"printf '\0%s %d %s %d\0' /x $BASHPID 1 0",
    "a marker with another directory": r"printf '\n__CWD_0123456789ab__/etc__CWD_0123456789ab__\n'",
    "control characters": r"printf '\001\002\003\004\033[2J\177'",
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES.keys())
async def test_what_looks_like_a_report_is_only_output(forgery: str) -> None:
    async with hermetic.open("local") as env:
        await env.run("cd /usr")
        plain = await env.run(f"bash -c {forgery!r} | od -An -tx1 | tr -d ' \\n'")
        result = await env.run(f"{forgery}; cd /tmp; (exit 5)")
        assert (result.cwd, result.exit_code) == ("/tmp", 5)
        # $BASHPID differs from shell to shell, all else is the same byte by byte.
        assert len(result.data) == result.total_bytes
        if "BASHPID" not in forgery:
            assert result.data.hex() == plain.output


@pytest.mark.parametrize(
    "chain", ["true && sleep 600 &", "false || sleep 600 &", "true; { sleep 600; } &"]
)
async def test_a_chain_in_the_background_does_not_hold_the_call_and_is_not_rewritten(
    chain: str,
) -> None:
    async with hermetic.open("local") as env:
        await env.run("true")
        began = time.perf_counter()
        result = await env.run(f'{chain}\necho now "{chain}"', timeout=60)
        assert time.perf_counter() - began < 10
        assert result.output == f"now {chain}\n"
        assert (await env.run("jobs -p | wc -l")).output.strip() == "1"

"""An agent whose terminal a person drives: every call gets a clear answer, and the note comes with
the next result.
"""

from pathlib import Path

from hermetic.session.terminal import terminal
from tests.boxes import on_this_side, opened


@on_this_side
async def test_calls_are_answered_while_a_person_drives_and_the_note_follows(
    kind: str, tmp_path: Path
) -> None:
    async with opened(tmp_path, kind) as box:
        program = 'stty -echo; while read line; do echo "got $line"; done'
        id = (await box.terminal(program, background=True, pty=True))["session_id"]
        assert (await box.process("submit", id, data="one"))["status"] == "ok"
        async with box.toolbox.fleet.use("t") as environment:
            person = await terminal(environment, id)
            await person.drive("ann")
            for action, more in (
                ("submit", {"data": "two"}),
                ("keys", {"data": "ctrl-c"}),
                ("kill", {}),
            ):
                refused = await box.process(action, id, **more)
                assert (refused["status"], refused["refused_by"]) == ("blocked", "driver")
                assert f"ann drives process {id} now" in refused["error"]
            assert (await box.process("poll", id))["driver"]["name"] == "ann"
            await person.write("secret of ann\r")
            assert (await box.process("wait_for", id, data="got secret of ann"))[
                "status"
            ] == "matched"
            await person.give("it is unlocked, go on")
        assert (await box.terminal("true"))["notes"] == [
            f"ann drove process {id} and has given it back: it is unlocked, go on"
        ]
        assert "notes" not in await box.terminal("true")
        answer = await box.process("submit", id, data="three")
        assert (answer["status"], answer["given_back"]["note"]) == ("ok", "it is unlocked, go on")
        assert (await box.process("wait_for", id, data="got three"))["status"] == "matched"
        assert "two" not in (await box.process("log", id))["output"]
        await box.process("kill", id)

"""A process of the real Hermes Agent without its model: tools are dispatched, and Hermes' own
modules use what is open.

`python -m tests.adapters.real.hermes_session KIND IMAGE HOME WORK` prints what it saw as JSON.
Settings come from the configuration file alone.
"""

import asyncio
import contextvars
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

Fields = dict[str, Any]

# One pixel.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

# Below the agent's own directory: what its model is told of, and all its keys.
FILES = {
    "skills/greeting/say.sh": "echo hello from a skill\n",
    "cache/documents/letter.txt": "dear agent\n",
    "tokens/mail.json": "{}\n",
    ".env": "KEY=1\n",
}


def configure(kind: str, image: str, home: Path, work: Path) -> str:
    """Writes the configuration file; the directory of commands."""
    inside = str(work) if kind == "local" else "/workspace"
    terminal: Fields = {"backend": kind, "cwd": inside, "env_passthrough": ["HANDED_ON"]}
    if kind == "docker":
        terminal |= {"docker_image": image, "docker_volumes": [f"{work}:/workspace"]}
        terminal |= {"docker_persist_across_processes": False, "container_persistent": False}
    terminal["credential_files"] = ["tokens/mail.json", ".env"]
    config = {
        "terminal": terminal,
        "approvals": {"mode": "manual", "deny": ["*forbidden*"]},
        "code_execution": {"max_tool_calls": 1},
        "plugins": {
            "enabled": ["hermetic"],
            "entries": {"hermetic": {"allow_tool_override": True}},
        },
    }
    home.mkdir(parents=True)
    (home / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    for path, text in FILES.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    os.environ |= {"HERMES_HOME": str(home), "HANDED_ON": "yes", "LEFT_TOKEN": "hidden"}
    os.chdir(work)
    return inside


def call(tool: str, task: str = "main", **arguments: Any) -> Fields:
    """The answer of a tool, as the agent gets it."""
    from tools.registry import registry

    more = {"enabled_tools": ["terminal"]} if tool == "execute_code" else {}
    answer: Fields = json.loads(
        registry.dispatch(tool, arguments, task_id=task, session_id=task, **more)
    )
    return answer


def terminal(command: str, task: str = "main", **more: Any) -> Fields:
    return call("terminal", task, command=command, **more)


def configured(inside: str) -> Fields:
    """What the configuration file means for calls."""
    script = "from hermes_tools import terminal\nfor n in range(2): print(terminal(f'echo {n}'))"
    return {
        "cwd": terminal("pwd")["output"],
        "passed": terminal("echo ${HANDED_ON-no} ${LEFT_TOKEN-no}")["output"],
        "denied": terminal("echo forbidden").get("status"),
        "calls": call("execute_code", code=script)["tool_calls_made"],
    }


def by_own_modules(inside: str) -> Fields:
    """What image tools, stored results and the agent's environment see of the task."""
    from tools.image_source import ResolveContext, resolve_image_source
    from tools.terminal_tool import get_active_env, is_persistent_env
    from tools.tool_result_storage import maybe_persist_tool_result

    terminal(f"echo {PNG} | base64 -d > dot.png; cd /; export SHELL_OF=model")
    image = asyncio.run(resolve_image_source(f"{inside}/dot.png", ResolveContext(task_id="main")))
    env = get_active_env("main")
    stored = maybe_persist_tool_result("y" * 200_000, "terminal", "call_1", env=env)
    path = next(word for word in stored.split() if word.startswith("/") and "call_1" in word)
    own = env.execute("echo -${SHELL_OF-none}-; cd /usr; export SHELL_OF=agent; exit 3")
    return {
        "image": [image.mime, image.origin],
        "stored": terminal(f"wc -c < {path}")["output"].strip(),
        "own": own,
        "model": terminal("pwd; echo $SHELL_OF")["output"],
        "cwd": env.cwd,
        "persistent": is_persistent_env("main"),
    }


def files_of_the_agent(kind: str, home: Path) -> Fields:
    """What commands see of the agent's files, under the names that its model is told."""
    from tools.credential_files import to_agent_visible_cache_path
    from tools.image_generation_tool import _agent_visible_cache_path
    from tools.terminal_tool import get_active_env

    base = home if kind == "local" else "/root/.hermes"
    letter = str(home / "cache" / "documents" / "letter.txt")
    return {
        "skill": terminal(f"sh {base}/skills/greeting/say.sh")["output"],
        "letter": terminal(f"cat {to_agent_visible_cache_path(letter)}")["output"],
        "hint": _agent_visible_cache_path(letter, get_active_env("main")),
        "named": terminal(f"cat {base}/tokens/mail.json")["output"],
        "keys": terminal(f"test -e {base}/.env")["exit_code"],
    }


def apart(inside: str, image: str) -> Fields:
    """Tasks with overrides and sessions of a gateway have environments of their own."""
    from gateway.session_context import set_session_vars
    from tools.process_registry import process_registry
    from tools.terminal_tool import register_task_env_overrides

    terminal("cd; MINE=main")
    register_task_env_overrides("other", {"cwd": "/usr", "docker_image": image})
    seen: Fields = {
        "subagent": terminal("echo ${MINE-none}", "a subagent")["output"],
        "override": terminal("pwd; echo ${MINE-none}", "other")["output"],
    }

    def session(number: int) -> Fields:
        set_session_vars(
            platform="telegram",
            chat_id=str(number),
            user_id="u",
            thread_id="t",
            session_key=f"k{number}",
        )
        said = terminal(f"echo ${{MINE-none}}; MINE={number}", f"s{number}")["output"]
        started = terminal(
            "sleep 1; echo over; exit 5", f"s{number}", background=True, notify_on_complete=True
        )
        [watcher] = process_registry.pending_watchers
        process_registry.pending_watchers.clear()
        asked = {"active": process_registry.has_active_for_session(f"k{number}")}
        event, record = (
            process_registry.completion_queue.get(timeout=60),
            process_registry.get(started["session_id"]),
        )
        deadline = time.monotonic() + 60
        while not record.exited and time.monotonic() < deadline:
            time.sleep(0.02)  # as the gateway's watcher does
        return {
            "said": said,
            "watcher": watcher["session_id"] == started["session_id"],
            "route": [
                watcher[name]
                for name in ("platform", "chat_id", "user_id", "thread_id", "session_key")
            ],
            "ended": [
                record.exited,
                record.exit_code,
                event["session_id"] == started["session_id"],
            ],
            **asked,
        }

    return seen | {
        "gateway": [contextvars.copy_context().run(session, number) for number in (1, 2)]
    }


def ended() -> Fields:
    """Hermes ends the environment of a task."""
    from tools.terminal_tool import cleanup_vm

    terminal("LIFE=1")
    before = terminal("echo $LIFE")["output"]
    cleanup_vm("default", force_remove=True)
    return {"before": before, "after": terminal("echo ${LIFE-gone}")["output"]}


def main() -> None:
    """Prints what was seen."""
    kind, image, home, work = sys.argv[1:]
    inside = configure(kind, image, Path(home), Path(work))
    from hermes_cli.plugins import discover_plugins

    discover_plugins()
    seen = {
        "configured": configured(inside),
        "modules": by_own_modules(inside),
        "files": files_of_the_agent(kind, Path(home)),
        "apart": apart(inside, image),
    }
    seen["ended"] = ended()
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()

"""Trees of processes that have got away from a kill. MARK stands for the number that tells them from others."""

TREES = {
    "one program": "sleep MARK",
    "children": "sleep MARK & sleep MARK & sleep MARK",
    "a pipeline": "sleep MARK | sleep MARK | sleep MARK",
    "a sub-shell": "(sleep MARK; sleep MARK)",
    "setsid": "setsid sleep MARK & sleep MARK",
    "a double fork": "( ( setsid sleep MARK & ) & ); sleep MARK",
    "nohup": "nohup sleep MARK >/dev/null 2>&1 & sleep MARK",
    "disown": "sleep MARK & disown -a; sleep MARK",
    "closed descriptors": "(setsid sh -c 'exec 0<&- 1>&- 2>&-; sleep MARK' &); sleep MARK",
    "an empty environment": "env -i setsid sh -c 'sleep MARK & sleep MARK' & sleep MARK",
    "TERM ignored": "bash -c 'trap \"\" TERM; while :; do sleep 0.05; done' MARK",
    "TERM ignored by the shell itself": "trap '' TERM; sleep MARK; sleep MARK",
    "keeps forking": "bash -c 'while :; do setsid bash -c \"sleep 600\" $0 & sleep 0.01; done' MARK",
    "forks when it is told to end": (
        "bash -c 'trap \"setsid sleep $0 & setsid sleep $0 &\" TERM; while :; do sleep 0.05; done' MARK"
    ),
    "stopped": "bash -c 'kill -STOP $$' MARK & sleep MARK",
    "job control": "set -m; sleep MARK & sleep MARK & sleep MARK",
}  # fmt: skip


def planted(name: str, mark: str) -> str:
    """The text of a tree that says `ready` first."""
    return f"echo ready; {TREES[name].replace('MARK', mark)}"

"""A look at survivors sees them."""

import subprocess

from benchmarks.trees import TREES, end_survivors, every_mark, living, new_try


def test_a_process_that_lives_on_is_counted_and_ended() -> None:
    one = new_try(TREES[0], 1)
    # Its arguments are to be seen once it runs: while it is being started, there are none.
    command = ["bash", "-c", "echo ready; read", one.mark]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        assert living(one.mark) == living(every_mark()) == [child.pid]
        assert living(new_try(TREES[0], 2).mark) == []
        assert end_survivors(one.mark) == 1
    assert end_survivors(one.mark) == 0


def test_every_process_of_a_tree_carries_the_mark() -> None:
    for tree in TREES:
        one = new_try(tree, 3)
        assert one.command.count(f"sleep {one.mark}") == tree.text.count("SLEEP") >= 3

"""What a task's caller relies on in its environment, and the notes that tell it when that is gone."""

from collections import OrderedDict

MOST_TASKS = 4096  # whose histories are kept, the last ones used
MOST_NAMED = 10  # processes in a note
SHOWN_COMMAND = 60  # characters

AFTER_LOSS = (
    "the environment is gone with its shell's state and all that ran in it, and whether this call had an effect is not "
    "known. The next call starts a new environment: look at the files first, then set up what you need again"
)


class History:
    """One task: the environment of its last call, the shell's directory there, and processes that were started."""

    def __init__(self) -> None:
        self.resident = ""  # of that environment; "" before the first call
        self.cwd = ""  # of its shell, after the last command
        self._started: dict[str, str] = {}  # process → command
        self._notes: list[str] = []

    def __repr__(self) -> str:
        return f"<History in {self.resident or 'no environment'}: {len(self._started)} processes>"

    def started(self, process: str, command: str) -> None:
        """A process that goes on when its call is over."""
        self._started[process] = command

    def ended(self, process: str) -> None:
        """The caller knows that this process has ended."""
        self._started.pop(process, None)

    def meet(self, resident: str, start: str, *, separate_files: bool) -> bool:
        """The environment of this call, whose sessions begin in `start`; True when it replaces another one."""
        before, self.resident = self.resident, resident
        if before in ("", resident):
            return False
        self._notes.append(self._loss(start, separate_files))
        self.cwd, self._started = "", {}
        return True

    def note(self, text: str) -> None:
        """Adds a note to the task's next answer."""
        self._notes.append(text)

    def take_notes(self) -> list[str]:
        """The notes that no answer has carried yet."""
        notes, self._notes = self._notes, []
        return notes

    def _loss(self, start: str, separate_files: bool) -> str:
        was = f" ({self.cwd})" if self.cwd else ""
        lost = ["shell variables, functions and aliases", f"the shell's directory{was}: it is {start} now"]
        if separate_files:
            lost.append("files that were only inside it")
        if self._started:
            named = [f"{id} ({command[:SHOWN_COMMAND]})" for id, command in list(self._started.items())[:MOST_NAMED]]
            more = len(self._started) - len(named)
            lost.append(f"background processes: {', '.join(named)}{f' and {more} more' if more else ''}")
        else:
            lost.append("everything that ran in it")
        return f"The environment of this task ended, and a new one was started in its place. Lost: {'; '.join(lost)}."


class Histories:
    """Histories by task, a bounded number of them."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, History] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Histories of {len(self._of)} tasks>"

    def of(self, task: str) -> History:
        """The task's history, made with its first call."""
        history = self._of[task] = self._of.get(task) or History()
        self._of.move_to_end(task)
        while len(self._of) > MOST_TASKS:
            self._of.popitem(last=False)
        return history

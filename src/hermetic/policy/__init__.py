"""May this run? Pure functions over a command's text: no I/O, nothing is started.

`assess` reads the shell, folds words, follows wrappers and nested code, and says what would happen;
`examine_python` and `examine_writes` do the same for a script and for files. Asking a person, and
remembering the answer, does not live here.
"""

from .assess import assess, examine_command, examine_python, examine_writes

__all__ = ["assess", "examine_command", "examine_python", "examine_writes"]

"""May this run? Pure functions over a command's text: no I/O, nothing is started.

`assess` reads the shell, folds words, follows wrappers and nested code, and says what would happen.
Asking a person, and remembering the answer, does not live here.
"""

from .assess import assess

__all__ = ["assess"]

"""The portable runtime: this machine's Python and bash for environments that lack one of them.

`store.portable` finds it in the user's cache, or builds it there once, and `store.runtime_at` reads
one that was built elsewhere. Both return a verified `Runtime`: its directory here, the prefix at
which that has to appear inside, and the programs below it. `store.packed` is the same as a
compressed archive for uploads.
"""

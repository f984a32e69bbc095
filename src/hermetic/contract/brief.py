"""Values with a short `repr`, however much they hold."""

import msgspec

MOST = 200  # characters or bytes of one field


class Brief(msgspec.Struct, frozen=True):
    """A value whose `repr` shows the start of what is long, and no field that has its default."""

    def __repr__(self) -> str:
        names, defaults = self.__struct_fields__, self.__struct_defaults__
        usual = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        fields = [
            f"{name}={_shown(value)}"
            for name in names
            if (value := getattr(self, name)) != usual.get(name, msgspec.NODEFAULT)
        ]
        return f"{type(self).__name__}({', '.join(fields)})"


def _shown(value: object) -> str:
    if isinstance(value, bytes | str) and len(value) > MOST:
        unit = "bytes" if isinstance(value, bytes) else "characters"
        return f"<{len(value)} {unit}: {value[: MOST // 4]!r}…>"
    if isinstance(value, tuple) and len(value) > 1 and len(repr(value[:MOST])) > MOST:
        return f"<{len(value)} of {value[0]!r}…>"
    return repr(value)

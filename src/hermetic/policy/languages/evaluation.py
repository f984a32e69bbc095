"""The engine of all script languages: attributes, items and calls of values, and what calls do.

A reader of a language feeds it; calls.toml tells it what each call does.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hermetic.policy.marks import DECODED, FILE, LOCAL, NET, PIDS, SECRET, marks_in
from hermetic.policy.programs.table import TABLE
from hermetic.policy.tables import names, regex

from . import values
from .calls import Invocation, Row
from .effects import Effects
from .folds import ERRORS, FOLDS, bound_call, reverse
from .values import (
    UNKNOWN,
    Bound,
    Class,
    Instance,
    Name,
    Obj,
    Value,
    is_text,
    marks_of,
    one_of,
    text_of,
)

# Kinds of results, and where the text that they hold comes from.
KINDS = {
    "net": NET,
    "socket": NET,
    "secret": SECRET,
    "output": LOCAL,
    "decoded": DECODED,
    "file": FILE,
}
ENVIRONMENT = Obj("environ", text=SECRET)
# Methods of a list that call a function for each item.
ITERATES = frozenset(
    names("each forEach map collect flatMap filter select reject grep find_all each_entry some")
)
# Modules that other modules import; reached through those, they are the same.
SHARED = frozenset(names("os posix subprocess shutil sys builtins importlib pty ctypes pathlib"))
KNOWN = {
    "sys.executable": "/usr/bin/python3",
    "os.sep": "/",
    "os.path.sep": "/",
    "os.curdir": ".",
}
_COMMAND = regex(r"(^|_)(command|cmd|script|shell|entrypoint)s?$")  # keywords of commands
_THEMSELVES = ("__call__", "__func__", "__wrapped__")  # attributes called like the function
# keywords that do not call a function
_HANDED_OVER_UNUSED = ("spec", "spec_set", "bound", "autospec", "target")


class Evaluation(Effects):
    """Attributes, items and calls of the values of one text."""

    looks_only = frozenset(TABLE.words("looks-only"))

    # --- values
    def attribute(self, base: Value, attr: str) -> Value:
        """An attribute of a value."""
        if isinstance(base, values.OneOf):
            return one_of(self.attribute(one, attr) for one in base.values if one is not None)
        if isinstance(base, Class | Instance):
            return self.member(base, attr)
        is_itself = attr in _THEMSELVES or (attr in ("call", "bind") and self.language != "python")
        if is_itself and (isinstance(base, Name | Bound) or callable(base)):
            return base
        if isinstance(base, Name) and base.startswith("def:"):
            return self.of_function(base, attr)
        if isinstance(base, Name):
            return self.of_module(base, attr)
        if isinstance(base, Obj):
            if base.call == "environ" and self.language == "javascript":
                return self.variable(attr)
            if base.call == "Path" and attr in ("parent", "parents"):
                return Obj("Path", (base.path or "").rstrip("/").rpartition("/")[0] or "/")
            shared = [Name(attr.lstrip("_"))] if attr.lstrip("_") in SHARED else []
            methods = (self.method(one, base) for one in self.methods.get(attr, ()))
            found = Obj(f"{base.call}.{attr}", base.path, base.text)
            return one_of([found, *self.assigned(attr), *shared, *methods])
        if isinstance(base, str | bytes | list | dict):
            return base[attr] if isinstance(base, dict) and attr in base else Bound(base, attr)
        return one_of([Obj("method:" + attr), *self.assigned(attr)])

    def method(self, function: Name, owner: Value) -> Value:
        """A function of the text with the object it is called on."""
        return lambda args, keywords: self.own(function, [owner, *args], keywords)

    def member(self, base: Class | Instance, attr: str) -> Value:
        """An attribute of a class of the text, or of an object of it."""
        found = (base.kind if isinstance(base, Instance) else base).find(attr)
        given = self.assigned(attr)
        for one in values.choices(found) if found is not None else []:
            is_own = isinstance(one, Name) and one.startswith("def:")
            given.append(
                self.method(Name(one), base) if is_own and isinstance(base, Instance) else one
            )
        return one_of(given) if given else Obj(f"object.{attr}")

    def of_function(self, base: Name, attr: str) -> Value:
        """An attribute of a function of the text."""

        def applied(args: list[Value], keywords: dict[str, Value]) -> Value:
            given = args[1:2]
            return self.own(base, given[0] if given and type(given[0]) is list else given, keywords)

        if attr == "apply" and self.language == "javascript":
            return applied
        return one_of([Obj("method:" + attr), *self.assigned(attr)])

    def of_module(self, base: Name, attr: str) -> Value:
        """An attribute of a module or of a name that the text does not define."""
        full = f"{base}.{attr}"
        if full in KNOWN:
            return KNOWN[full]
        if full == "sys.stdin":
            return Obj("stdin", text=self.call.input())
        if full == "sys.argv":
            return self.arguments()
        if full in ("os.environ", "os.environb", "process.env"):
            return ENVIRONMENT
        if base in ("posix", "nt"):
            return self.of_module(Name("os"), attr)
        if base.startswith("__builtins__") or base == "builtins":
            return Name(attr)
        return one_of(
            [Name(attr.lstrip("_") if attr.lstrip("_") in SHARED else full), *self.assigned(attr)]
        )

    def arguments(self) -> Value:
        """The arguments of a Python text."""
        if self.call.row.language == "python":
            options = self.call.options
            return list(["-c", *options.rest[1:]] if options.rest else options.operands)
        return [*self.call.argv]

    def assigned(self, attr: str) -> list[Value]:
        """The values assigned to an attribute of that name."""
        return list(values.choices(self.attributes[attr])) if attr in self.attributes else []

    def assign_attribute(self, base: Value, attr: str, value: Value) -> None:
        """An assignment to an attribute; of a request it is what will be sent."""
        before = self.attributes.get(attr, value)
        self.attributes[attr] = one_of([*values.choices(before), value])
        if isinstance(base, Obj) and base.call.startswith("net") and SECRET in marks_of(value):
            self.report_sent()
        if attr.lower() == "stdin" and NET in marks_of(value) and self.has_shell:
            self.report_received()

    def item(self, base: Value, key: Value) -> Value:
        """An item of a value."""
        if (
            isinstance(base, Obj)
            and base.call in ("vars", "globals", "locals")
            and isinstance(key, str)
        ):
            return (
                self.attribute(Name(base.path), key)
                if base.path
                else self.names.get(key, Name(key))
            )
        if isinstance(base, Name) and isinstance(key, str):
            if base.endswith("__dict__"):
                return self.attribute(Name(base.removesuffix(".__dict__")), key)
            if base == "sys.modules" or base.startswith("__builtins__"):
                return Name(key)
        is_constant = isinstance(base, str | bytes | list) and not isinstance(base, Name)
        if is_constant and isinstance(key, int | slice):
            try:
                is_turned = isinstance(key, slice) and key.step == -1
                return reverse(base) if is_turned else base[key]  # type: ignore[index]
            except (IndexError, ValueError):
                return UNKNOWN
        if isinstance(base, dict) and isinstance(key, str) and key in base:
            return base[key]
        if isinstance(base, dict | list):
            return one_of([*values.items_of(base), UNKNOWN])
        if isinstance(base, Obj) and base.call == "environ":
            return self.variable(key)
        return UNKNOWN if isinstance(base, Name) else Obj("?", text=marks_of(base))

    def variable(self, key: Value) -> Value:
        """An environment variable."""
        return self.call.shell.scalar(text_of(key)) if is_text(key) else Obj("?", text=SECRET)

    # --- calls
    def invoke(self, function: Value, args: list[Value], keywords: dict[str, Value]) -> Value:
        """The result of a call, after its effects are reported."""
        self.call.machine.spend(1)
        if isinstance(function, values.OneOf):
            return one_of([self.invoke(one, args, keywords) for one in function.values])
        if isinstance(function, Class | Instance):
            return self.of_class(function, args, keywords)
        if callable(function):
            result: Value = function(args, keywords)
            return result
        if isinstance(function, Name) and function.startswith("def:"):
            return self.own(function, args, keywords)
        for at, arg in enumerate(args[:4]):
            if isinstance(arg, values.OneOf):
                ways = [[*args[:at], one, *args[at + 1 :]] for one in arg.values]
                return one_of([self.invoke(function, way, keywords) for way in ways])
        if is_text(function) and self.language != "python":
            function = Name(text_of(function).replace("::", "."))
        if isinstance(function, Name):
            self.hand_over(function, args, keywords)
            return self.named(str(function), None, args, keywords)
        if isinstance(function, Bound):
            return self.bound(function, args, keywords)
        if isinstance(function, Obj) and function is not UNKNOWN:
            self.hand_over(function.call, args, keywords)
            if "." not in function.call:
                self.unknown_call(args, keywords)
            return self.named(function.call, function, args, keywords)
        if function is not None:
            self.unknown_call(args)
        return UNKNOWN

    def bound(self, function: Bound, args: list[Value], keywords: dict[str, Value]) -> Value:
        """A method of a constant."""
        self.hand_over(function.attr, args, keywords)
        if self.endless and function.attr in ("append", "push", "extend"):
            self.report("use-everything-up", "fills the memory without end")
        if isinstance(function.base, list) and args and function.attr in ITERATES:
            found = self.each_item(function.base, args[0])
            return found if function.attr in ("map", "collect", "flatMap") else function.base
        self.check_put_in(function.attr, args)
        row = self.table.methods.get(function.attr)
        if row is not None and (row.sql is not None or row.raises):
            self.apply(row, Invocation(function.attr, None, args, keywords))
        return bound_call(function, args, keywords, self.call.shell)

    def each_item(self, items: list[Value], action: Value) -> list[Value]:
        """The results of a function, or of a method by its name, for each item of a list."""
        found: list[Value] = []
        for item in values.bounded(items, 24):
            if values.is_function(action):
                found.append(self.invoke(action, [item], {}))
            elif is_text(action):
                found.append(self.invoke(self.attribute(item, text_of(action)), [], {}))
        return found

    def own(self, key: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        """A call of a function that the text defines."""
        raise NotImplementedError

    def of_class(
        self, function: Class | Instance, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """A call of a class that the text defines, or of an object of it."""
        made = Instance(function) if isinstance(function, Class) else function
        found = made.kind.find("__init__" if isinstance(function, Class) else "__call__")
        given = [
            one for one in values.choices(found) if isinstance(one, Name) and one.startswith("def:")
        ]
        results = [self.own(one, [made, *args], keywords) for one in given]
        return made if isinstance(function, Class) else one_of(results)

    def unknown_call(self, args: list[Value], keywords: dict[str, Value] | None = None) -> None:
        """A call of an unknown function: arguments that are a dangerous command count as one."""
        machine, shell = self.call.machine, self.call.shell
        given = [*args[:2], *(one for key, one in (keywords or {}).items() if _COMMAND.search(key))]
        for arg in given[:4]:
            if is_text(arg) and " " in text_of(arg) and not marks_in(text_of(arg)):
                if machine.probe_text(text_of(arg), shell):
                    self.call.shell_text(text_of(arg))
            elif isinstance(arg, list) and len(arg) > 1:
                argv = list(map(text_of, arg))
                if machine.probe_argv(argv, shell):
                    self.call.run(argv, stdin="")

    def named(
        self, name: str, owner: Obj | None, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """A call by its dotted name."""
        made = Invocation(name, owner, args, keywords)
        row = self.table.find(name)
        if row is not None:
            return self.apply(row, made)
        if any(map(_COMMAND.search, keywords)):
            self.unknown_call([], keywords)
        self.check_put_in(made.last, args)
        decodes = re.search(r"decode|decompress|decrypt|unhex", made.last) is not None
        if made.last == "decode":  # of bytes to text, but for these
            decodes = any(re.match(r"rot|hex|base|zip|bz2|uu", text_of(arg)) for arg in args[:1])
        held = owner.text if owner is not None else ""
        return Obj(name, None, held + made.marks + DECODED * decodes)

    def apply(self, row: Row, made: Invocation) -> Value:
        """Report what a row says, and give its result."""
        if row.hook:
            hook: Callable[[Invocation], Value] = getattr(self, "hook_" + row.hook)
            return hook(made)
        if row.fold in FOLDS:
            return self.folded(row.fold, made)
        held = (made.owner.text if made.owner is not None else "") + KINDS.get(row.gives, "")
        if row.forks:
            self.fork(row, made.args)
        if row.run is not None:
            printed = self.run(made.pick(row.run), made, row.repeats)
            held += "".join(mark for mark in (PIDS, NET, SECRET, DECODED) if mark in printed)
            self.lists_processes |= self.language != "python" and PIDS in held and not self.chosen
        if row.calls is not None:
            return self.callback(made.args, made.keywords)
        if row.code is not None:
            given = made.args[-1:] if made.name == "Function" else made.pick(row.code)
            return self.evaluate(made.name, given[0] if given else None)
        if row.sql is not None:
            self.statements(made.pick(row.sql), local=False)
        if row.like and (words := made.command(row.like)):
            is_fetched = words[0] == "cp" and "://" in words[1]
            self.call.run(["curl", "-o", words[2], words[1]] if is_fetched else words)
        for value in made.pick(row.read):
            held += self.read(text_of(value))
        path = self.change(row, made)
        if row.url is not None:
            held += self.reach(row, made)
        if row.raises and not (row.unless_arguments and (made.args or made.keywords)):
            self.report(row.raises, row.reason)
        return Obj(row.gives or made.name, path if row.gives == "file" else None, held + made.marks)

    def folded(self, fold: str, made: Invocation) -> Value:
        """The result of a pure function; the marks of its arguments where it cannot be computed."""
        args = made.args
        if is_path := made.owner is not None and made.owner.path is not None:
            args = [made.owner.path, *args]
        try:
            found = FOLDS[fold](args, self.call.shell)
        except ERRORS:
            decodes = fold in ("base64", "hex", "other_base", "decoder", "buffer")
            return Obj(made.name, None, DECODED * decodes + made.marks)
        return Obj("Path", found) if is_path and isinstance(found, str) else found

    def callback(self, args: list[Value], keywords: dict[str, Value]) -> Value:
        """A function that a callee calls with the arguments after it."""
        if self.language != "python" and args and is_text(args[0]):
            args = [Name(text_of(args[0]).replace("::", ".")), *args[1:]]
        at = next((at for at, arg in enumerate(args) if values.is_function(arg)), len(args))
        target = keywords.get("target", args[at] if at < len(args) else None)
        given = keywords.get("args", args[at + 1 :] or args[:at])
        items = list(values.items_of(given)) if isinstance(given, list) else []
        if not values.is_function(target):
            return Obj("?", text=marks_of(args))
        if len(items) == 1 and isinstance(items[0], list | bytes):  # map over the items
            known = list(items[0])[:64] + [UNKNOWN] * (len(items[0]) > 64)
            return [self.invoke(target, [item], {}) for item in known]
        return self.invoke(target, items, {})

    def hand_over(self, callee: str, args: list[Value], keywords: dict[str, Value]) -> None:
        """Harmful functions among the arguments of a callee that may call them."""
        if callee.rpartition(".")[2] in self.looks_only:
            return
        self.handed.update(one for one in (*args, *keywords.values()) if isinstance(one, Name))
        row = self.table.find(callee)
        calls = row is not None and row.calls is not None  # it calls the first one itself
        placed = [] if calls else [(arg, args[at + 1 : at + 9]) for at, arg in enumerate(args)]
        behind = keywords.get("args")
        rest = behind if isinstance(behind, list) else []
        named = [(one, rest) for key, one in keywords.items() if key not in _HANDED_OVER_UNUSED]
        for value, given in (*placed, *named):
            for one in self.harmful_in(value):
                if isinstance(one, Obj):
                    self.named(one.call, one, [], {})
                else:
                    self.named(str(one), None, given or [UNKNOWN], {})

    def harmful_in(self, value: Value) -> list[Value]:
        """The harmful functions that a value is, or holds; some of them, where they are many."""
        found: list[Value] = []
        for one in values.choices(value):
            inner = list(values.items_of(one)) if isinstance(one, list | dict) else [one]
            self.call.machine.spend(len(inner) // 16)
            for item in inner:
                if isinstance(item, Name) or (isinstance(item, Obj) and item.path is not None):
                    row = self.table.find(item if isinstance(item, Name) else item.call)
                    if row is not None and row.is_harmful:
                        found.append(item)
        return found[: values.MAX_CHOICES]

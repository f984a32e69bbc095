"""Every part of a Python text is judged: no kind of node, and no place for an expression in one, is
left out.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

import pytest

from hermetic.policy import assess, examine_python

BOMB = "__import__('shutil').rmtree('/')"
# Texts that hold every kind of node that Python has. What a name means here does not matter.
GENERIC = ("type X[T: A, *Ts, **P] = list[T]\ndef f[T: B](a: T): p(a)\nclass C[T: D]: pass",)
GENERIC = GENERIC if hasattr(ast, "TypeAlias") else ()  # type: ignore[assignment]
SAMPLES = (
    "def f(a, /, b: B = 1, *args: C, k: D = 2, **more: E) -> F:\n    '''doc'''\n    return a\nf(1)",
    "async def g(a=1):\n    await h(a)\n    async for x in y(a):\n        p(x)\n    else:\n        p(0)\n"
    "    async with m(a) as n:\n        p(n)\n    return [q async for q in y(a) if q]",
    "@deco(1)\nclass A(B, metaclass=C):\n    x: int = 1\n    y = 2\n    @property\n"
    "    def f(self, z=3):\n        return z\n",
    "del a[0], b.c\na[1] = 2\na.b = 3\nx: int\nx += 1\n(c, *d) = e\nfor i in range(3):\n    p(i)\nelse:\n    p(0)",
    "while a < 3 and not b:\n    p(1)\n    break\nelse:\n    continue_ = 1\nif a:\n    p(1)\n"
    "elif b:\n    p(2)\nelse:\n    pass",
    "for i in a:\n    if i:\n        continue\n    p(i)",
    "with a(1) as b, c(2):\n    p(1)\nraise E(1) from F(2)",
    "try:\n    p(1)\nexcept E(1) as e:\n    p(2)\nelse:\n    p(3)\nfinally:\n    p(4)",
    "try:\n    p(1)\nexcept* E as e:\n    p(2)",
    "assert a, b\nimport os.path as q\nfrom os import path\nglobal x\np(1)\n",
    "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n    g()\n    yield x\n"
    "    yield from h(x)\n    y = yield",
    "match a(1):\n    case 1 | -2:\n        p(1)\n    case [b, *c] if b:\n        p(2)\n"
    "    case {'k': d, **e}:\n        p(3)\n"
    "    case F(1, g=h):\n        p(4)\n    case None:\n        p(5)\n    case m.n as o:\n"
    "        p(6)\n    case _:\n        p(7)",
    "x = (y := 1)\nx = a + b - c * d / e // f % g ** h @ i << 1 >> 2 & 3 | 4 ^ 5\nx = -a, +b, ~c, not d\nx = a or b",
    "f = lambda a, b=1: a\nx = 1 if a else 2\nx = {a: b, **c}\nx = {1, 2}\nx = [1, *a]\nx = (1, 2)\n"
    "x = a[1:2:3]\nx = a[b]\nx = a.b",
    "x = [i for i in a if i for j in b if j]\nx = {i for i in a}\nx = {i: j for i in a}\nx = (i for i in a)",
    "x = a == b != c < d <= e > f >= g is h is not i in j not in k\nx = f(a, *b, k=c, **d)\n"
    "x = f'{a!r:{b}}'\nx = ...\nx = 1j",
    *(
        ("type X[T: A, *Ts, **P] = list[T]\ndef f[T: B](a: T): p(a)\nclass C[T: D]: pass",)
        if hasattr(ast, "TypeAlias")
        else ()
    ),
)
NOT_IN_A_TEXT = frozenset(  # kinds of kinds, whole texts, and what only older Pythons make
    [
        *(
            "AST",
            "mod",
            "Module",
            "Interactive",
            "Expression",
            "FunctionType",
            "Suite",
            "type_ignore",
            "TypeIgnore",
        ),
        *(
            "expr",
            "stmt",
            "operator",
            "boolop",
            "unaryop",
            "cmpop",
            "expr_context",
            "pattern",
            "excepthandler",
        ),
        *(
            "type_param",
            "slice",
            "Index",
            "ExtSlice",
            "AugLoad",
            "AugStore",
            "Param",
            "Num",
            "Str",
            "Bytes",
        ),
        *("NameConstant", "Ellipsis", "TemplateStr", "Interpolation"),
    ]
)


def places(tree: ast.Module) -> Iterator[ast.Module]:
    """The text with the bomb in place of each of its expressions that is evaluated, one after the
    other.
    """
    bomb = ast.parse(BOMB, mode="eval").body
    for number, node in enumerate(ast.walk(tree)):
        for field, value in ast.iter_fields(node):
            for at in range(len(value)) if isinstance(value, list) else [None]:
                one = value if at is None else value[at]
                if not isinstance(one, ast.expr) or not _is_evaluated(node, field, one):
                    continue
                twin = copy.deepcopy(tree)
                changed = list(ast.walk(twin))[number]
                if at is None:
                    setattr(changed, field, bomb)
                else:
                    getattr(changed, field)[at] = bomb
                yield ast.fix_missing_locations(twin)


def _is_evaluated(node: ast.AST, field: str, value: ast.expr) -> bool:
    """False for what is assigned to, and where Python's grammar takes no call."""
    if isinstance(getattr(value, "ctx", None), ast.Store | ast.Del) or isinstance(
        node, ast.pattern
    ):
        return False
    if isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.FormattedValue) and field == "format_spec"
    ):
        return False
    return not isinstance(value, ast.Slice | ast.Starred)


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_an_expression_is_judged_wherever_it_stands(number: int) -> None:
    for tree in places(ast.parse(SAMPLES[number])):
        text = ast.unparse(tree)
        assert examine_python(text).verdict.label == "dangerous", text


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_a_statement_is_judged_in_every_block(number: int) -> None:
    tree = ast.parse(SAMPLES[number])
    for at, node in enumerate(ast.walk(tree)):
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                twin = copy.deepcopy(tree)
                getattr(list(ast.walk(twin))[at], field).insert(0, ast.parse(BOMB).body[0])
                text = ast.unparse(ast.fix_missing_locations(twin))
                assert examine_python(text).verdict.label == "dangerous", text


def test_the_samples_hold_every_kind_of_node() -> None:
    held = {type(node).__name__ for sample in SAMPLES for node in ast.walk(ast.parse(sample))}
    known = {
        name
        for name, kind in vars(ast).items()
        if isinstance(kind, type) and issubclass(kind, ast.AST)
    }
    assert known - held - NOT_IN_A_TEXT == set()


@pytest.mark.parametrize(
    "text",
    [
        "import shutil\nclass A:\n    def f(self, p):\n        shutil.rmtree(p)\nA().f('/')",
        "import shutil\nclass A:\n    shutil.rmtree('/etc')",
        "import os\nclass A:\n    def __init__(self, c): self.c = c\n"
        "    def go(self): os.system(self.c)\nA('rm -rf /').go()",
        "import os\n(os.system if x else print)('rm -rf /')",
        "import os\n(None or os.system)('rm -rf /')",
        "import os\nf = print\nif x:\n    f = os.system\nf('rm -rf /')",
        "import os\n{'a': os.system, 'b': print}[x]('rm -rf /')",
        "import os\nrun = [print, os.system]\nrun[n]('rm -rf /')",
        "try:\n    import shutil\nexcept ImportError:\n    shutil = None\nshutil.rmtree('/')",
        "import os\ndef f(x=os.system('rm -rf /')): pass",
        "import os\n@(lambda f: os.system('rm -rf /'))\ndef g(): pass",
        "import os\ndef deco(f): os.system('rm -rf /'); return f\n@deco\ndef g(): pass",
        "import os\nmatch x:\n    case 1: os.system('rm -rf /')",
        "import os\nmatch 'rm -rf /':\n    case c: os.system(c)",
        "import tarfile\ntarfile.open('a.tar').extractall('/etc')",
        "import zipfile\nwith zipfile.ZipFile('a.zip') as z:\n    z.extractall(path='/etc')",
        "import shutil\nshutil.unpack_archive('a.zip', '/usr/bin')",
        "import os\ndef run():\n    if a:\n        return os.system\n    return print\nrun()('rm -rf /')",
        "import os, types\no = types.SimpleNamespace()\no.run = os.system\no.run('rm -rf /')",
        "import os\nfor f in (print, os.system):\n    f('rm -rf /')",
        "x = {i: __import__('os').system('rm -rf /') for i in a}",
        'f\'{1:{__import__("os").system("rm -rf /")}}\'',
    ],
)
def test_ordinary_code_hides_nothing(text: str) -> None:
    assert examine_python(text).verdict.label == "dangerous"


@pytest.mark.parametrize(
    "text",
    [
        "import shutil\nclass A:\n    def f(self, p):\n        shutil.rmtree(p)\nA().f('build')",
        "import subprocess\ndef run(*argv):\n    return subprocess.run(argv, check=True)\nrun('git', 'status')",
        "import subprocess\nclass Repo:\n    def __init__(self, path): self.path = path\n"
        "    def git(self, *args): return subprocess.run(['git', *args], cwd=self.path)\nRepo('.').git('log')",
        "try:\n    import tomllib\nexcept ImportError:\n    import tomli as tomllib\nprint(tomllib.loads('a = 1'))",
        "import tarfile\ntarfile.open('a.tar').extractall('vendor')",
        "import shutil, tempfile\nclass T:\n  def set_up(self): self.d = tempfile.mkdtemp()\n"
        "  def tear_down(self): shutil.rmtree(self.d)",
        "import zipfile\nzipfile.ZipFile('a.zip').extractall()",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 1\n"
        "    def area(self): return self.x ** 2\nprint(P(2).area())",
        "import json\nmatch json.load(open('a.json')):\n    case {'name': n}: print(n)\n    case _: print('?')",
        "import os\npath = 'build' if os.path.exists('build') else 'dist'\nos.makedirs(path, exist_ok=True)",
        "import functools\n@functools.lru_cache\n"
        "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(30))",
        "import asyncio\nasync def main():\n    await asyncio.sleep(0)\n    print('done')\nasyncio.run(main())",
    ],
)
def test_everyday_code_is_not_asked_about(text: str) -> None:
    assert examine_python(text).verdict.label != "dangerous"


@pytest.mark.parametrize(
    "text",
    [
        "import pathlib\npathlib.os.system('rm -rf /etc')",
        "from shutil import os as o\no.system('rm -rf /etc')",
        "import random\nrandom._os.system('rm -rf /etc')",
        "import glob\nglob.glob('*')\nglob.os.remove('/etc/passwd')",
        "import os.path\nos.path.os.system('rm -rf /etc')",
        "import importlib\nx = importlib.util.module()\nx.os.system('rm -rf /etc')",
        "import multiprocessing, shutil\nmultiprocessing.Process(target=shutil.rmtree, args=('/etc',)).start()",
        "import multiprocessing, shutil\nmultiprocessing.Pool().starmap(shutil.rmtree, [('/etc',)])",
        "import asyncio, os\nasyncio.get_event_loop().run_in_executor(None, os.remove, '/etc/passwd')",
        "import shutil\nsorted(['/etc'], key=shutil.rmtree)",
        "import shutil\nx = ['/etc']\nx.sort(key=shutil.rmtree)",
        "import shutil\nmax(['/etc'], key=shutil.rmtree)",
        "import os, lib\nlib.call(callback=os.system)",
        "import shutil, lib\nlib.call({'a': shutil.rmtree})",
        "import pathlib, lib\nlib.call(pathlib.Path('/etc/passwd').unlink)",
        "import shutil\nshutil.rmtree.__call__('/etc')",
        "import os\ngetattr(os, 'system').__call__.__call__('rm -rf /etc')",
        "import operator, os\noperator.attrgetter('system')(os)('rm -rf /etc')",
        "import operator, pathlib\noperator.attrgetter('os.system')(pathlib)('rm -rf /etc')",
        "import operator, shutil\noperator.methodcaller('rmtree', '/etc')(shutil)",
        "import operator, shutil\noperator.call(shutil.rmtree, '/etc')",
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import shutil; shutil.rmtree(\"/etc\")'])",
    ],
)
def test_a_function_is_known_however_it_is_reached(text: str) -> None:
    assert examine_python(text).verdict.label == "dangerous"


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pytest'])",
        "import subprocess\nfrom sys import executable\nsubprocess.check_call([executable, '-m', 'pytest', '-q'])",
        "import os\nprint(sorted(os.listdir('.'), key=os.path.getmtime))",
        "import subprocess\nprint(subprocess.run, isinstance(x, subprocess.Popen))",
        "import subprocess\nfrom typing import cast\np = cast(subprocess.Popen, x)",
        "import subprocess\nfrom unittest.mock import Mock\nMock(spec=subprocess.Popen)",
        "import platform\nprint(platform.os.name, platform.sys.version)",
        "import operator\nprint(sorted(x, key=operator.attrgetter('name')), operator.methodcaller('lower')('A'))",
        "print(args.os.lower())",
    ],
)
def test_what_only_looks_at_functions_and_modules_is_safe(text: str) -> None:
    assert examine_python(text).verdict.label == "safe"


def test_the_interpreter_itself_is_judged_as_python() -> None:
    text = "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pytest'])"
    assert examine_python(text).verdict.label == assess("python -m pytest").label == "safe"


def test_files_that_a_cleanup_deletes_are_those_it_is_given() -> None:
    text = "import shutil, lib\nlib.add_cleanup(shutil.rmtree, 'build')"
    assert (
        examine_python(text).verdict.label
        == examine_python("import shutil\nshutil.rmtree('build')").verdict.label
    )

"""`hermetic serve`: the console's server, its tokens and its password."""

import argparse
import getpass
import importlib.util
import logging
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hermetic.cli.command import Command, options
from hermetic.cli.interrupts import all_as
from hermetic.cli.opening import DenyRules, checked_settings, read_option, settings_here
from hermetic.cli.progress import log_progress
from hermetic.cli.report import print_json, print_listing, span
from hermetic.cli.times import read_duration
from hermetic.contract.errors import ConfigError, InvalidArgument
from hermetic.contract.limits import TERMINAL_IDLE, TERMINALS
from hermetic.contract.printable import one_line
from hermetic.resident.lazy import Lazy

if TYPE_CHECKING:
    from hermetic.config.settings import Settings
    from hermetic.serve import access, clients, password, running, server, static_files, tokens
    from hermetic.serve.recordings import Wanted
else:
    clients, running = Lazy("hermetic.serve.clients"), Lazy("hermetic.serve.running")
    server, static_files = Lazy("hermetic.serve.server"), Lazy("hermetic.serve.static_files")
    access = Lazy("hermetic.serve.access")
    password = Lazy("hermetic.serve.password")
    tokens = Lazy("hermetic.serve.tokens")

ABOUT = """\
Serves the console: a page that shows environments, commands and approvals of this user, with terminals. It prints a URL
that logs a browser in once, within ten minutes, and stays until Ctrl-C. Environments run on without it. An MCP client
with a token uses the tools at /mcp, in environments of its own that end with it.

With an action it does something else: `token` makes a token for a program, `tokens` lists tokens and links, `revoke ID`
removes one, `url` makes another start URL for a running server, `password` sets the password for logins from other
machines.

  hermetic serve
  hermetic serve token --scope view,drive --expires 7d"""

NEEDED = ("starlette", "uvicorn", "websockets")


def _serve(arguments: argparse.Namespace) -> int:
    """Serves until a signal, or does what the action says."""
    check_installed()
    if arguments.action is not None:
        return _ACTIONS[arguments.action](arguments)
    log_progress()
    logging.getLogger("hermetic.serve").setLevel(logging.WARNING)
    settings = settings_here()
    options = server.ServerOptions(
        host=arguments.host,
        port=arguments.port,
        names=tuple(arguments.name),
        certificate=_path(arguments.certificate),
        key=_path(arguments.key),
        terminals=arguments.terminals,
        terminal_idle=arguments.terminal_idle,
        record=arguments.record or recorded(settings),
        clients=_client_options(arguments),
    )
    console = server.ConsoleServer(options, DenyRules(settings).guard_environment)
    if not static_files.is_built():
        sys.stderr.write(f"hermetic: {static_files.HOW_TO_BUILD}\n")
    url = console.access.start_url()
    until = "The URL logs one browser in, within ten minutes. Ctrl-C ends the server; environments run on."
    with all_as(signal.SIGTERM):
        _print(arguments, f"The console is at {url}\n{until}", {"url": url})
        console.run()
    return 0


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)


def recorded(settings: "Settings | None") -> "Wanted":
    """What the console records by setting."""
    return "none" if settings is None else settings.console.record


def _client_options(arguments: argparse.Namespace) -> "clients.ClientOptions":
    """Environments of clients, as the command line says. Raises ConfigError."""
    options = dict(map(read_option, arguments.options))
    if arguments.image is not None:
        options["image"] = arguments.image
    if arguments.env is not None or options:
        checked_settings(arguments.env, options)
    return clients.ClientOptions(kind=arguments.env, options=options)


def check_installed() -> None:
    """Raises ConfigError where a package of the extra is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        names = ", ".join(missing)
        raise ConfigError(
            f"not installed: {names}; install what is missing with: pip install 'hermetic[serve]'",
            setting="serve",
        )


def _make_token(arguments: argparse.Namespace) -> int:
    """Prints a new token."""
    scopes, seconds = tokens.read_scopes(arguments.scope), read_duration(arguments.expires)
    grant = access.bearer_grant(one_line(arguments.holder, 40), scopes, seconds)
    store = tokens.TokenStore.of_this_user()
    secret = store.create(grant)
    made = store.find(secret, "bearer")
    about = {} if made is None else _about(made)
    _print(arguments, secret, {"token": secret, **about})
    if sys.stdout.isatty():
        sys.stderr.write(f"hermetic: it is valid for {span(seconds)} and is not shown again\n")
    return 0


def _list_tokens(arguments: argparse.Namespace) -> int:
    """Prints every token without its secret."""
    found, now = tokens.TokenStore.of_this_user().all(), time.time()
    rows = [
        (token.id, grant.use, ",".join(grant.scopes), span(grant.expires - now), grant.name)
        for token in found
        if (grant := token.grant)
    ]
    print_listing(arguments.json, map(_about, found), "ID|USE|SCOPES|EXPIRES IN|NAME", rows)
    return 0


def _about(token: "tokens.Token") -> dict[str, object]:
    """A token without its secret."""
    shown = ("use", "name", "scopes", "created", "expires")
    return {"id": token.id, **{name: getattr(token.grant, name) for name in shown}}


def _print(arguments: argparse.Namespace, text: str, data: object) -> None:
    """Prints what was done, as a text or as JSON."""
    if arguments.json:
        print_json(data)
    else:
        print(text, flush=True)


def _revoke(arguments: argparse.Namespace) -> int:
    """Removes the token with an id of this prefix."""
    if not arguments.id:
        raise InvalidArgument(
            "name the token: hermetic serve revoke ID; `hermetic serve tokens` lists them",
            argument="id",
        )
    store = tokens.TokenStore.of_this_user()
    matching = [token for token in store.all() if token.key.startswith(arguments.id)]
    if len(matching) != 1:
        raise InvalidArgument(
            f"{len(matching)} tokens have an id like {arguments.id!r}; `hermetic serve tokens` lists them",
            argument="id",
        )
    store.revoke(matching[0])
    _print(arguments, f"revoked {matching[0].id}", {"revoked": matching[0].id})
    return 0


def _make_url(arguments: argparse.Namespace) -> int:
    """Prints a start URL for a server that runs already."""
    found = [
        url for url in running.running_servers() if arguments.port in (None, urlsplit(url).port)
    ]
    if not found:
        where = "" if arguments.port is None else f" at port {arguments.port}"
        raise ConfigError(
            f"no console of yours runs{where}; start one: hermetic serve", setting="port"
        )
    if len(found) > 1:
        raise ConfigError(
            f"several consoles run; choose one with --port: {', '.join(found)}", setting="port"
        )
    url = access.start_url(tokens.TokenStore.of_this_user(), found[0])
    _print(arguments, url, {"url": url})
    return 0


def _password(arguments: argparse.Namespace) -> int:
    """Sets the password, typed twice or read from a pipe."""
    if sys.stdin.isatty():
        text = getpass.getpass("New password for the console: ")
        password.check_password(text)
        if getpass.getpass("Again: ") != text:
            raise InvalidArgument("the two differ; nothing was changed", argument="password")
    else:
        text = sys.stdin.readline().rstrip("\n")
    file = password.write_password(text)
    _print(arguments, f"stored a hash in {file}", {"file": str(file)})
    return 0


_ACTIONS = {
    "token": _make_token,
    "tokens": _list_tokens,
    "revoke": _revoke,
    "url": _make_url,
    "password": _password,
}
COMMANDS = {
    "serve": Command(
        ABOUT,
        options(f"""\
action [{{{",".join(_ACTIONS)}}}]  what to do instead of serving
id [ID]             for revoke: an id from `hermetic serve tokens`
--host ADDRESS = 127.0.0.1   (default: %(default)s)
--port N: int       (default: 7625, or the next free one)
--name HOST…        a host name by which browsers reach it; repeatable
--certificate FILE   TLS certificate chain, PEM
--key FILE    its private key, PEM
--terminals N: int = {TERMINALS}   most terminals at once (default: %(default)s)
--terminal-idle SECONDS: float = {TERMINAL_IDLE}
                    after which an unused terminal without a viewer is closed, 0: never
                    (default: %(default)g)
--env KIND          kind of the environments of MCP clients (default: your settings')
--image I           their image, for docker, podman and apptainer
-o, --option KEY=VALUE… -> options
                    any option of that kind; the value is JSON, or else text; may be repeated
--scope S = view    of a token: view, drive, approve, admin, mcp, e2b (view)
--expires T = 1d    of a token: 30m, 12h, 7d (default: 1d)
--as NAME = program -> holder   name of a token's holder
--record {{none,terminals,all}}
                    record what starts from now on (default: the setting console.record, none)
--json              as JSON"""),
        _serve,
    )
}

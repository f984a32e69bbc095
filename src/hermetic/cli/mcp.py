"""`hermetic mcp`: the tools for an MCP client on standard input and output, and the client's
configuration.
"""

import argparse
import importlib.util
import math
import os
import sys
from typing import TYPE_CHECKING

from hermetic.cli.command import Command, option, options, takes
from hermetic.cli.opening import ENVIRONMENT, SHORT, checked_settings, given_options
from hermetic.cli.progress import log_progress
from hermetic.contract.errors import ConfigError, InvalidArgument
from hermetic.environments import catalog
from hermetic.mcp import clients, stdio
from hermetic.resident.lazy import Lazy

if TYPE_CHECKING:
    from hermetic.mcp import client
else:
    client = Lazy("hermetic.mcp.client")

# options that a printed configuration has as well
PASSED_ON = ("env", *SHORT, "task", "directory", "wait")

ABOUT = """\
Serves the tools to the MCP client that started it, over standard input and output, until the client closes its end.
Commands run in an environment of this client alone, which ends with it, or in the environment of --task. With
--print-config the configuration for a client is printed instead, with the other options of this command line.

  hermetic mcp --print-config claude-code
  hermetic mcp --env sandbox"""


def _mcp(arguments: argparse.Namespace) -> int:
    """Serves, or prints a configuration."""
    if arguments.wait is not None and not 0 < arguments.wait < math.inf:
        raise InvalidArgument("--wait is seconds above zero", argument="wait")
    if arguments.env is not None:
        catalog.find(arguments.env)  # an unknown kind is reported before a client waits
    if arguments.print_config is not None:
        over_http = arguments.url is not None
        found = (_http_config if over_http else _config)(arguments)
        print(found.text)
        sys.stderr.write(f"hermetic: this belongs into {found.file}\n")
        if over_http:
            advice = "hermetic serve token --scope mcp --expires 30d"
            sys.stderr.write(f"hermetic: set {clients.TOKEN} to a token: {advice}\n")
        return 0
    if arguments.url is not None:
        raise InvalidArgument("--url goes with --print-config", argument="url")
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError(
            "the package mcp is missing; install it with: pip install 'hermetic[mcp]'",
            setting="mcp",
        )
    directory = arguments.directory or os.environ.get("CLAUDE_PROJECT_DIR")
    if directory is not None:
        try:
            os.chdir(directory)
        except OSError as error:
            raise InvalidArgument(
                f"--directory: {error.strerror}: {directory}", argument="directory"
            ) from None
    session = f"/run/user/{os.geteuid()}"
    if "XDG_RUNTIME_DIR" not in os.environ and os.path.isdir(session):
        os.environ["XDG_RUNTIME_DIR"] = session  # many clients withhold it; a terminal has it
    log_progress()
    stdio.serve(lambda: serve_options(arguments))
    return 0


def serve_options(arguments: argparse.Namespace) -> "client.ServeOptions":
    """The options of every client, from the command line and the settings. Raises ConfigError."""
    options = given_options(arguments)
    settings = checked_settings(arguments.env, options)
    return client.ServeOptions(
        settings=settings, options=options, task=arguments.task, wait=arguments.wait
    )


def _config(arguments: argparse.Namespace) -> clients.Configuration:
    """The configuration of a client that starts this command line."""
    command = ["hermetic", "mcp"]
    for name, value in vars(arguments).items():
        if name in PASSED_ON and value is not None:
            command += [f"--{name}", f"{value:g}" if isinstance(value, float) else value]
    for text in arguments.options:
        command += ["-o", text]
    return clients.configuration(arguments.print_config, command)


def _http_config(arguments: argparse.Namespace) -> clients.Configuration:
    """The configuration of a client over HTTP. Raises InvalidArgument for options of the
    server, which `hermetic serve` takes.
    """
    for name, value in vars(arguments).items():
        if (name in PASSED_ON and value is not None) or (name == "options" and value):
            flag = "-o" if name == "options" else f"--{name}"
            raise InvalidArgument(
                f"{flag} does not go with --url: the server decides it", argument=name
            )
    url = arguments.url.rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise InvalidArgument(
            "--url is the address of the server, like http://127.0.0.1:7625", argument="url"
        )
    address = url if url.endswith("/mcp") else f"{url}/mcp"
    return clients.http_configuration(arguments.print_config, address)


COMMANDS = {
    "mcp": Command(
        ABOUT,
        takes(
            options(
                ENVIRONMENT,
                f"""\
--task T         use the environment of this task, which lives on by its lease
--directory D    work in this directory, with its settings
--wait S: float  seconds that the client waits for a call (default: by its name, else {clients.WAIT:g});
                 a longer command continues as a process
--url URL        with --print-config: of a `hermetic serve` that the client connects to""",
            ),
            option(
                "--print-config",
                metavar="CLIENT",
                choices=sorted(clients.CONFIGURATIONS),
                help=f"print the configuration for a client: {', '.join(clients.CONFIGURATIONS)}",
            ),
        ),
        _mcp,
    )
}

"""What frameworks expect of files beyond Hermetic's own rules."""

from hermetic import Environment


async def check_writable(environment: Environment, path: str) -> None:
    """Raises PermissionError for a file without write permission:

    Hermetic replaces files, which needs none.
    """
    done = await environment.run(["test", "!", "-e", path, "-o", "-w", path])
    if done.exit_code == 1:
        raise PermissionError(13, "Permission denied", path)

"""A sandbox backend for deepagents.

    with HermeticBackend("docker", image="python:3.12") as backend:
        agent = create_deep_agent(model, backend=backend)

Commands share one session, which keeps directory and variables. Errors are results for the model.
"""

import base64
import posixpath
from typing import Any, Self

from hermetic import FilePage, Result, blocking
from hermetic.adapters import opening
from hermetic.adapters.frameworks import framework
from hermetic.contract.endings import Exited
from hermetic.contract.errors import ExecutionError

with framework("deepagents"):
    from deepagents.backends.protocol import (
        EditResult,
        ExecuteResponse,
        FileData,
        FileDownloadResponse,
        FileInfo,
        FileUploadResponse,
        GlobResult,
        LsResult,
        ReadResult,
        SandboxBackendProtocol,
        WriteResult,
    )
    from deepagents.backends.sandbox import BaseSandbox
    from deepagents.backends.utils import (
        InvalidGlobPatternError,
        _get_backend_read_file_type,
        compile_grep_include_glob,
        normalize_read_bounds,
        perform_string_replacement,
    )

# bytes of an image or another file that is no text, as in the framework's own backends
MOST_BINARY = 500 << 10
MOST_FILES = 10_000  # matches of a glob
MOST_LISTED = 32 << 20  # bytes of names that a glob looks at
NO_FILES = ("/proc", "/sys", "/dev")  # without end, and without files of the user


class HermeticBackend(BaseSandbox):
    """An environment of Hermetic, which ends with `close`, or with this program."""

    def __init__(self, kind: str = "sandbox", *, timeout: int = 120, **options: Any) -> None:
        self._environment = blocking.open(kind, **options)
        self._options = options
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"<HermeticBackend {self._environment.kind} {self.id}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the environment and all that runs in it."""
        self._environment.close(remove=True)

    @property
    def id(self) -> str:
        """Id of the environment on this host."""
        return self._environment.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a command. A timeout ends its process tree."""
        try:
            return _response(self._environment.run(command, timeout=timeout or self._timeout))
        except ExecutionError as error:
            return ExecuteResponse(output=str(error), exit_code=None)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """As `execute`; cancelling ends the process tree."""
        try:
            async with opening.attach(self.id, self._options) as environment:
                return _response(await environment.run(command, timeout=timeout or self._timeout))
        except ExecutionError as error:
            return ExecuteResponse(output=str(error), exit_code=None)

    def ls(self, path: str) -> LsResult:
        """The entries of a directory."""
        try:
            names = self._environment.list_names(path)
            argv = [
                "find",
                posixpath.join(path, ""),
                "-mindepth",
                "1",
                "-maxdepth",
                "1",
                "-type",
                "d",
                "-print0",
            ]
            found = self._environment.run(
                argv, timeout=self._timeout, limit=MOST_LISTED, separate=True
            )
        except (OSError, ExecutionError) as error:
            return LsResult(error=f"Path '{path}': {_code(error)}")
        directories = {posixpath.basename(name) for name in found.output.split("\0")}
        return LsResult(
            entries=[
                FileInfo(path=posixpath.join(path, name), is_dir=name in directories)
                for name in names
            ]
        )

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Lines of a text; the whole of another file, in base64."""
        offset, limit = normalize_read_bounds(offset, limit)
        try:
            page = self._environment.read_lines(file_path, offset + 1, limit)
            if page.is_binary or _get_backend_read_file_type(file_path) != "text":
                if page.status.size > MOST_BINARY:
                    return ReadResult(
                        error=f"File '{file_path}': Binary file exceeds {MOST_BINARY} bytes"
                    )
                data = base64.b64encode(self._environment.read_bytes(file_path)).decode()
                return ReadResult(file_data=FileData(content=data, encoding="base64"))
        except (OSError, ExecutionError) as error:
            return ReadResult(error=f"File '{file_path}': {_code(error)}")
        return _read_result(page, offset, limit)

    def write(self, file_path: str, content: str) -> WriteResult:
        """Writes a file and its directories."""
        error = self._put(file_path, content.encode())
        return (
            WriteResult(path=file_path)
            if error is None
            else WriteResult(error=f"File '{file_path}': {error}")
        )

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        """Replaces a text that occurs once, or with `replace_all` each occurrence, if no one else
        changed the file.
        """
        try:
            found = self._environment.read_content(file_path)
            text = found.data.decode()
            if "\r\n" in text and old_string not in text:  # the model has seen the lines without it
                old_string, new_string = (
                    part.replace("\n", "\r\n") for part in (old_string, new_string)
                )
            edited = perform_string_replacement(text, old_string, new_string, replace_all)
            if isinstance(edited, str):
                return EditResult(error=edited)
            self._environment.write_file(file_path, edited[0], expect=found.status.signature)
        except UnicodeDecodeError:
            return EditResult(error=f"Error: File '{file_path}' is not a text file")
        except (OSError, ExecutionError) as error:
            return EditResult(error=f"Error editing file '{file_path}': {_code(error)}")
        return EditResult(path=file_path, occurrences=edited[1])

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Files whose path below `path` matches."""
        root = path or "/"
        try:
            matches = compile_grep_include_glob(pattern)
            pruned = [word for name in NO_FILES for word in ("-path", name, "-prune", "-o")]
            argv = ["find", root, *pruned, "-type", "f", "-print0"]
            result = self._environment.run(
                argv, timeout=self._timeout, limit=MOST_LISTED, separate=True
            )
        except InvalidGlobPatternError as error:
            return GlobResult(error=str(error))
        except ExecutionError as error:
            return GlobResult(error=str(error))
        listed = result.output.split("\0")[:-1]
        if not listed and result.exit_code != 0:
            return GlobResult(error=(result.stderr or str(result.ending)).strip())
        found = sorted(name for name in listed if matches(posixpath.relpath(name, root)))
        cut = result.truncated or len(found) > MOST_FILES or not isinstance(result.ending, Exited)
        reason = "budget" if cut else "unreadable" if result.exit_code != 0 else None
        infos = [FileInfo(path=name, is_dir=False) for name in found[:MOST_FILES]]
        return GlobResult(matches=infos, truncated=reason is not None, truncation_reason=reason)

    # Files are read and written in a thread; the base class would run Python inside instead.
    als = SandboxBackendProtocol.als
    aread = SandboxBackendProtocol.aread
    awrite = SandboxBackendProtocol.awrite
    aedit = SandboxBackendProtocol.aedit
    aglob = SandboxBackendProtocol.aglob

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Writes files and their directories."""
        return [FileUploadResponse(path=path, error=self._put(path, data)) for path, data in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """The content of files."""
        return [self._get(path) for path in paths]

    def _put(self, path: str, data: bytes) -> str | None:
        """None, or why it was not written."""
        try:
            self._environment.write_file(path, data)
        except (OSError, ExecutionError) as error:
            return _code(error)
        return None

    def _get(self, path: str) -> FileDownloadResponse:
        try:
            return FileDownloadResponse(path=path, content=self._environment.read_bytes(path))
        except (OSError, ExecutionError) as error:
            return FileDownloadResponse(path=path, error=_code(error))


def _response(result: Result) -> ExecuteResponse:
    output = result.output
    if not isinstance(result.ending, Exited):
        output += f"\n[{result.ending}]"
    return ExecuteResponse(output=output, exit_code=result.exit_code, truncated=result.truncated)


def _read_result(page: FilePage, offset: int, limit: int) -> ReadResult:
    data = FileData(content=page.text.replace("\r\n", "\n").removesuffix("\r"), encoding="utf-8")
    if page.total == 0:
        return ReadResult(file_data=data)
    if limit == 0:
        return ReadResult(file_data=data, no_lines_requested=True)
    if page.lines == 0:
        return ReadResult(error=f"Line offset {offset} exceeds file length ({page.total} lines)")
    end = offset + page.lines
    return ReadResult(
        file_data=data,
        total_lines=page.total,
        start_line=offset + 1,
        end_line=end,
        next_offset=end if end < page.total else None,
    )


def _code(error: Exception) -> str:
    """The framework's name of a problem with a file."""
    codes: dict[type[Exception], str] = {
        FileNotFoundError: "file_not_found",
        PermissionError: "permission_denied",
        IsADirectoryError: "is_directory",
        NotADirectoryError: "invalid_path",
    }
    return codes.get(type(error), str(error))

"""Base of kinds whose environment is a sandbox of a cloud vendor, by the vendor's own SDK.

Keys of the vendor stay on this machine: the SDK reads them here, and nothing of them is sent to a
sandbox. The SDK is imported on first use, on a thread: that takes seconds.
"""

import asyncio
import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Annotated, ClassVar

import msgspec

from hermetic.contract.environment import Abandoned, Finding, Isolation, NewEnvironment, Started
from hermetic.contract.errors import (
    EnvironmentUnavailable,
    NotInstalled,
    Unreachable,
)
from hermetic.contract.limits import CALLED_START, LIFETIME
from hermetic.environments.checkup import missing
from hermetic.environments.clouds.hosted import (
    ENDING_SECONDS,
    ID,
    KEPT,
    ROOT,
    CloudApi,
    HostedBackend,
)
from hermetic.environments.options import ProfileOptions, Seconds, check_persistent, identity_of
from hermetic.environments.profile import credential_notes, unsent_notes
from hermetic.registry.records import tag_of

PROXIES = str.split("""
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
""")

Amount = Annotated[float, msgspec.Meta(ge=0)]


class SandboxOptions(ProfileOptions, frozen=True, kw_only=True):
    """The options of all kinds whose environment is created by a service."""

    image: str = ""
    cwd: str = "~"
    cpu: Amount = 0  # cores; 0: the vendor's default
    memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0  # 0: the vendor's default
    network: bool = True
    # directories here → there: sent before commands, copied back at close
    sync: dict[str, str] = msgspec.field(default_factory=dict)
    startup: Seconds = CALLED_START  # for creating the sandbox and its first answer
    lifetime: Annotated[float, msgspec.Meta(ge=60)] = LIFETIME  # after which the vendor ends it


class CloudOptions(SandboxOptions, frozen=True, kw_only=True):
    """The options that all kinds of vendors have."""

    persistent: bool = False  # the files of a task outlive its sandboxes
    idle: Seconds = 0  # seconds without activity, after which the vendor ends it; 0: never


class CloudBackend(HostedBackend):
    """A kind whose environment is a sandbox of a vendor."""

    kind: str  # also the name of its extra
    package: ClassVar[str] = ""  # the SDK's; empty: that of the kind
    vendor: ClassVar[str]
    option_shape: ClassVar[type[SandboxOptions]] = CloudOptions
    identity: ClassVar[tuple[str, ...]] = identity_of(CloudOptions)
    orphans = True  # what a start has created outlives an opener that was killed

    # -- parts of a vendor
    @classmethod
    def api(cls) -> AbstractAsyncContextManager[CloudApi]:
        """The vendor's SDK, imported."""
        raise NotImplementedError

    def service(self) -> AbstractAsyncContextManager[CloudApi]:
        """The SDK for the options of this environment."""
        return self.api()

    @classmethod
    def lacking(cls) -> str:
        """The variables to set where there are no credentials; empty where there are."""
        raise NotImplementedError

    # -- the backend
    def __str__(self) -> str:
        return f"a sandbox of {self.vendor}"

    @property
    def isolation(self) -> Isolation:
        """Another machine; the vendor's isolation is not checked."""
        return Isolation(
            kind=self.kind,
            separate_files=True,
            separate_processes=True,
            separate_user=True,
            separate_network=not self.chosen.network,
            shared_paths=tuple(self.chosen.sync),
            notes=(*self.isolation_notes(), *credential_notes(self.chosen.credential_files)),
        )

    def isolation_notes(self) -> Iterator[str]:
        """What commands share with others there, and what is not checked."""
        yield f"{self.vendor} runs the commands and can read their files; its isolation is not checked"
        if self.chosen.network:
            yield f"the network is on: what a sandbox of {self.vendor} can reach, a command can reach"

    @classmethod
    def no_package(cls) -> NotInstalled | None:
        """The SDK, where it is not installed."""
        package = cls.package or cls.kind
        if importlib.util.find_spec(package) is not None:
            return None
        return NotInstalled(f"no {package} package", f"pip install 'hermetic[{cls.kind}]'")

    @classmethod
    def problem(cls) -> NotInstalled | None:
        """What is missing on this machine; the service is not asked."""
        if (problem := cls.no_package()) is not None:
            return problem
        if lacking := cls.lacking():
            return NotInstalled(f"no credentials of {cls.vendor}", f"set {lacking}")
        return None

    def own_problem(self) -> NotInstalled | None:
        """What is missing for these options."""
        return self.problem()

    @classmethod
    async def doctor(cls) -> Finding:
        """Checks the package and the credentials; connects to no host."""
        if problem := cls.problem():
            return missing(problem)
        package = cls.package or cls.kind
        version = importlib.metadata.version(package)
        return Finding(
            state="ok", found=f"{package} {version}, with credentials; the service was not asked"
        )

    def check_start(self, id: str) -> None:
        """Raises ConfigError or NotInstalled where the environment `id` cannot be started."""
        check_persistent(self._kept_for(id) is not None, id)
        if problem := self.own_problem():
            raise problem

    @property
    def image_key(self) -> str:
        """A text that is the same for sandboxes with the same programs."""
        return f"{self.kind} {self.chosen.image or repr(self.chosen)} {os.environ.get('USER', '')}"

    async def start(self, new: NewEnvironment) -> Started:
        """Creates a sandbox and starts a resident there.

        Raises EnvironmentUnavailable, and leaves nothing.
        """
        started = await super().start(new)
        return msgspec.structs.replace(started, notes=unsent_notes(self.chosen.selected_profile))

    @classmethod
    async def collect(cls, root: str, abandoned: Abandoned) -> list[str]:
        """Ends sandboxes made for a runtime directory that no record knows.

        Raises EnvironmentUnavailable, but only after all others have ended.
        """
        if cls.problem() is not None:
            return []
        ended, problems = [], []
        async with cls._mapped(), cls.api() as api:
            for sandbox in await api.tagged({ROOT: tag_of(root)}):
                name = f"{cls.kind} sandbox {sandbox.id}"
                try:
                    async with asyncio.timeout(ENDING_SECONDS), cls._mapped():
                        tags = await sandbox.tags()
                        async with abandoned(tags.get(ID, "")) as it_is:
                            if it_is:
                                await sandbox.end(tags.get(KEPT))
                                ended.append(name)
                except (EnvironmentUnavailable, TimeoutError) as error:
                    problems.append(f"{name} was not ended: {error or 'no answer in time'}")
        if problems:
            raise Unreachable("; ".join([*problems, *(f"{name} was ended" for name in ended)]))
        return ended

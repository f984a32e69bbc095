"""Pods of a Kubernetes cluster: the resident is the main process of a pod, and an exec carries the
stream to it.

The pod ends with the resident, and by its own clock, also without any caller. What is left of an
ended pod is its object, which `hermetic gc` deletes from any machine that has the same cluster.
"""

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hermetic.contract.environment import (
    Abandoned,
    EnvironmentRecord,
    NewEnvironment,
    ResidentConfig,
    Started,
)
from hermetic.contract.errors import (
    ConfigError,
    EnvironmentUnavailable,
    ExecutionError,
    NotInstalled,
    Unreachable,
)
from hermetic.contract.limits import START
from hermetic.environments.clouds.backend import PROXIES, CloudBackend
from hermetic.environments.clouds.hosted import ID, ROOT, Gone, Ran
from hermetic.environments.options import MissingOption, identity_of
from hermetic.environments.pods.api import ApiFailure, config_path, connected
from hermetic.environments.pods.manifest import KubernetesOptions, check
from hermetic.environments.pods.pod import Pod
from hermetic.environments.pods.sandbox import PodApi
from hermetic.registry.records import runtime_root, tag_of

HOME = "/tmp"  # where the user has none that it can write
CLUSTERS = ".kubernetes"  # a file of the runtime directory: where its pods may be
IN_CLUSTER = "KUBERNETES_SERVICE_HOST"  # a variable of every pod


class Kubernetes(CloudBackend):
    """Commands run in a pod of their own."""

    kind = "kubernetes"
    package = "lightkube"
    vendor = "Kubernetes"
    credentials = "the kubeconfig"
    option_shape = KubernetesOptions
    identity = identity_of(KubernetesOptions)
    # The variables of login programs that a kubeconfig may name are those of the large clouds.
    variables = ("KUBECONFIG", "KUBERNETES_", "AWS_", "AZURE_", "CLOUDSDK_", "GOOGLE_", *PROXIES)

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        if not self.chosen.image and self.chosen.claim is None:
            raise MissingOption(self.kind, "image", "python:3.12")
        check(self.chosen)

    def __str__(self) -> str:
        return "a pod"

    def isolation_notes(self) -> Iterator[str]:
        """A container on another machine; whether a NetworkPolicy is enforced is not seen."""
        chosen = self.chosen
        if chosen.claim is not None:
            yield f"the template of {chosen.claim} says what isolates the pod; not checked"
        elif chosen.runtime_class is None:
            yield "a pod shares the kernel of its node; runtime_class names a sandboxed runtime"
        if chosen.network:
            yield "the network is on: what the pods of the cluster can reach, a command can reach"
        else:
            yield "the network is off by a NetworkPolicy; whether the cluster enforces it is not checked"
        if chosen.pod:
            yield f"pod may have changed all of this: {', '.join(sorted(chosen.pod))}"
        for path in chosen.volumes:
            yield f"{path} is a volume: what is written there stays"

    @classmethod
    def lacking(cls) -> str:
        """A kubeconfig, or the service account of the pod that this process runs in."""
        if config_path(None) is not None or IN_CLUSTER in os.environ:
            return ""
        return "KUBECONFIG, or write ~/.kube/config"

    def own_problem(self) -> NotInstalled | None:
        """Another kubeconfig has credentials of its own."""
        return self.problem() if self.chosen.kubeconfig is None else self.no_package()

    @classmethod
    def api(cls) -> AbstractAsyncContextManager[PodApi]:
        """The current context."""
        return _api(Address(), with_claims=True)

    def service(self) -> AbstractAsyncContextManager[PodApi]:
        """The cluster and the namespace of the options."""
        return _api(self._address, with_claims=self.chosen.claim is not None)

    @property
    def _address(self) -> "Address":
        return Address(self.chosen.kubeconfig, self.chosen.context, self.chosen.namespace)

    @classmethod
    def is_refusal(cls, error: Exception) -> bool:
        """By the answer of the API server."""
        return isinstance(error, ApiFailure) and error.is_refusal

    async def start(self, new: NewEnvironment) -> Started:
        """Creates a pod, or takes one of the pool.

        Raises EnvironmentUnavailable, and leaves nothing.
        """
        self._address.remember()
        return await super().start(new)

    def resident_config(self, new: NewEnvironment) -> ResidentConfig:
        """The resident replaces the main process, unless a template has made that."""
        config = super().resident_config(new)
        is_main = self.chosen.claim is None
        return msgspec.structs.replace(
            config, foreground=is_main, guardian=not is_main, own_cgroup=True, home=HOME
        )

    async def boot(self, sandbox: Pod, python: str, given: bytes) -> Ran:
        """As the main process of the pod, or beside it."""
        return await sandbox.boot(python, given, START)

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """A stream to the resident.

        A pod whose node is lost counts as gone: the cluster deletes it.
        """
        try:
            return await super().reach(record)
        except Unreachable as error:
            with contextlib.suppress(ExecutionError):  # what may live is not known
                if why := await self._why_lost(record):
                    name = record.place["name"]
                    raise ConnectionRefusedError(f"{name} is gone: {why}") from error
            raise

    async def found_to_end(self, api: Any, record: EnvironmentRecord) -> Pod:
        """The pod, or what is left of one that has ended: its object, its claim. Raises Gone."""
        pod: Pod = await api.find(record.place["sandbox"], ended=True)
        return pod

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the pod has ended, or its node is lost. Raises Unreachable."""
        return bool(await self._why_lost(record))

    async def _why_lost(self, record: EnvironmentRecord) -> str:
        """Why the pod does not run any more; empty where it may. Raises Unreachable."""
        try:
            async with self._mapped(record.id), self.service() as api:
                return await (await api.find(record.place["sandbox"])).why_lost()
        except Gone as error:
            return str(error)

    @classmethod
    async def collect(cls, root: str, abandoned: Abandoned) -> list[str]:
        """Deletes pods of a runtime directory that no record knows, and ended ones of any."""
        if cls.no_package() is not None:
            return []
        ended, failed = [], None
        for address in Address.known(root):
            try:
                async with cls._mapped(), _api(address, with_claims=True) as api:
                    ended += [name async for name in _collect(api, root, abandoned)]
            except (EnvironmentUnavailable, ConfigError) as error:
                failed = error
        if failed is not None and not ended:
            raise failed
        return ended


async def _collect(api: PodApi, root: str, abandoned: Abandoned) -> AsyncIterator[str]:
    for pod in await api.tagged({}):
        tags = await pod.tags()
        if tags.get(ROOT) == tag_of(root):
            async with abandoned(tags.get(ID, "")) as it_is:
                if not it_is:
                    continue
                await pod.end(None)
        elif pod.is_over:
            await pod.end(None)
        else:
            continue
        yield f"kubernetes sandbox {pod.id}"


@asynccontextmanager
async def _api(address: "Address", *, with_claims: bool) -> AsyncIterator[PodApi]:
    async with (
        connected(*address) as cluster,
        contextlib.aclosing(PodApi(cluster, with_claims=with_claims)) as api,
    ):
        yield api


class Address(NamedTuple):
    """Where pods are; None is what the kubeconfig says."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None

    def remember(self) -> None:
        """Notes it in the runtime directory, so that `hermetic gc` finds what a killed opener
        leaves there.
        """
        if any(self) and self not in self.known(str(runtime_root())):
            with (runtime_root() / CLUSTERS).open("ab") as file:
                file.write(msgspec.json.encode(self) + b"\n")

    @classmethod
    def known(cls, root: str) -> "list[Address]":
        """The usual one, and those that were noted."""
        found = [cls()] if config_path(None) is not None or IN_CLUSTER in os.environ else []
        with contextlib.suppress(OSError, msgspec.DecodeError):
            for line in Path(root, CLUSTERS).read_bytes().splitlines():
                found.append(
                    cls(*msgspec.json.decode(line, type=tuple[str | None, str | None, str | None]))
                )
        return list(dict.fromkeys(found))

"""Pods as sandboxes: created or claimed, waited for, run in, deleted."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from hermetic.contract.errors import ConfigError, EnvironmentUnavailable
from hermetic.environments.clouds.backend import ROOT, Gone, NewSandbox, Ran
from hermetic.environments.pods.api import ApiFailure, Cluster, Object, PodStream
from hermetic.environments.pods.manifest import (
    CONTAINER,
    NAME,
    NETWORK,
    KubernetesOptions,
    manifest,
    merged,
)
from hermetic.environments.pods.pool import PodPool
from hermetic.environments.pods.states import state_of, why_lost
from hermetic.environments.remote import MARK
from hermetic.link.archive import NO_PYTHON_CODE
from hermetic.link.readiness import NotReady, is_answered, ready_in

ENDED_SECONDS = 10.0  # for the object of a pod to show that its main process has ended
NOT_THERE = "python3 is not there"  # what the waiting main process says instead of the mark

log = logging.getLogger("hermetic")


class PodApi:
    """Pods of a namespace that belong to environments."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._created: list[Pod] = []

    async def aclose(self) -> None:
        """Closes the streams to main processes."""
        for pod in self._created:
            await pod.detach()

    async def create(self, new: NewSandbox, options: KubernetesOptions) -> "Pod":
        """A new pod that waits for its resident."""
        if not options.network:
            await self._check_policy()
        labels = {**new.tags, NAME: new.name}
        wanted = manifest(options, new.name, labels, options.startup + options.pending)
        pod = Pod(self._cluster, wanted, options.pending)
        self._created.append(pod)
        if options.pool and await self._took(pod, new, options):
            return pod
        await pod.create()
        return pod

    async def _took(self, pod: "Pod", new: NewSandbox, options: KubernetesOptions) -> bool:
        """Whether a pod of the pool is the new one; the pool gets what it lacks in any case."""
        pool = PodPool(self._cluster, options)
        taken = await pool.take(new)
        if taken is not None:
            pod.object = taken
        await pool.fill()
        return taken is not None

    async def _check_policy(self) -> None:
        """Raises ConfigError where no NetworkPolicy of the namespace cuts off pods with our label."""
        path = self._cluster.path("networkpolicies", group="apis/networking.k8s.io/v1")
        found = (await self._cluster.request("GET", path))["items"]
        if not any(map(_cuts_off, found)):
            raise ConfigError(
                f"network=False needs a NetworkPolicy in the namespace {self._cluster.namespace} that selects "
                f"{NETWORK}=off and allows nothing; docs/how-to/run-on-kubernetes.md has one",
                setting="network",
            )

    async def find(self, id: str) -> "Pod":
        """The pod with this id. Raises Gone for one that has ended."""
        namespace, name, uid = id.split("/")
        try:
            found = await self._cluster.request(
                "GET", self._cluster.path("pods", name, namespace=namespace)
            )
        except ApiFailure as error:
            if error.code == 404:
                raise Gone(
                    "it was deleted: by a person, an eviction, or a drained or lost node"
                ) from error
            raise
        if found["metadata"]["uid"] != uid:
            raise Gone("it was deleted, and another pod has its name")
        state = state_of(found)
        if state.state == "gone":
            raise Gone(state.reason)
        return Pod(self._cluster, found)

    async def named(self, name: str) -> "Pod":
        """The pod that was created or claimed under this name."""
        for pod in await self.tagged({NAME: name}):
            return pod
        raise Gone(f"no pod is called {name}")

    async def tagged(self, tags: Mapping[str, str]) -> "Sequence[Pod]":
        """The pods with these labels, ended ones included."""
        selector = ",".join(f"{name}={value}" for name, value in tags.items()) or ROOT
        found = await self._cluster.request(
            "GET", self._cluster.path("pods"), params={"labelSelector": selector}
        )
        return [Pod(self._cluster, one) for one in found["items"]]


class Pod:
    """One pod."""

    def __init__(self, cluster: Cluster, object: Object, pending: float = 0.0) -> None:
        self._cluster = cluster
        self.object = self._wanted = object  # as the API server sent it last; and as it is created
        self._pending = pending  # seconds in which a node may come
        # to its main process, which ends with it before a resident is there
        self._main: PodStream | None = None
        self._is_over = False  # its main process has ended before a resident was ready
        self._renewals = 0

    def __repr__(self) -> str:
        return f"<Pod {self.name}>"

    @property
    def name(self) -> str:
        """The name of its object."""
        name: str = self.object["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str:
        """That of its object."""
        namespace: str = self.object["metadata"]["namespace"]
        return namespace

    @property
    def id(self) -> str:
        """What identifies it, also where another pod gets its name."""
        return f"{self.namespace}/{self.name}/{self.object['metadata']['uid']}"

    async def tags(self) -> Mapping[str, str]:
        """Its labels."""
        labels: Mapping[str, str] = self.object["metadata"].get("labels") or {}
        return labels

    async def create(self) -> None:
        """Creates it and waits until it runs. Raises EnvironmentUnavailable."""
        try:
            self.object = await self._cluster.request(
                "POST", self._cluster.path("pods"), self._wanted
            )
        except ApiFailure as error:
            if error.is_refusal and error.code != 401:
                what = (
                    "its quota is used up"
                    if "exceeded quota" in str(error)
                    else "it refuses the pod"
                )
                message = f"the namespace {self._cluster.namespace}: {what}: {error}"
                raise EnvironmentUnavailable(message) from error
            raise
        await self.running()

    async def running(self) -> None:
        """Waits until its container runs. Raises EnvironmentUnavailable, Gone."""
        loop = asyncio.get_running_loop()
        last = loop.time() + self._pending
        while True:
            state = state_of(self.object)
            if state.state == "running":
                return
            if state.state == "gone":
                raise Gone(state.reason)
            if state.state == "failed" or (state.state == "unschedulable" and loop.time() >= last):
                raise EnvironmentUnavailable(f"pod {self.name}: {state.reason}")
            # Waits for a change; an unschedulable one until its time is up.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(last if state.state == "unschedulable" else None):
                    await self._changed()

    async def _changed(self) -> None:
        """Waits for the next state of its object."""
        version = self.object["metadata"]["resourceVersion"]
        async with contextlib.aclosing(
            self._cluster.watch(self._cluster.path("pods"), self.name, version)
        ) as events:
            async for event, found in events:
                self.object = found
                if event == "DELETED":
                    raise Gone("it was deleted before it ran")
                return
        self.object = await self._cluster.request("GET", self._path())  # the watch has ended

    def _path(self) -> str:
        return self._cluster.path("pods", self.name, namespace=self.namespace)

    async def _renewed(self) -> None:
        """Creates it anew where its main process has ended.

        A kubelet would confuse two pods of one name.
        """
        if self._is_over:
            self._is_over = False
            await self.end(None)
            self._renewals += 1
            name = f"{self._wanted['metadata']['name']}-{self._renewals}"
            self._wanted = merged(self._wanted, {"metadata": {"name": name}})
            await self.create()

    async def boot(self, line: str, given: bytes, seconds: float) -> Ran:
        """Replaces the waiting main process by the program of a line, with that input.

        Returns once it is ready.
        """
        await self._renewed()
        python = line.partition("command -v ")[2].split()[0]
        safe = f"if command -v {python} >/dev/null 2>&1; then {line}; else echo '{NOT_THERE}'; fi\n"
        async with asyncio.timeout(seconds):
            if self._main is None:
                self._main = await self._cluster.stream(
                    "attach", self.name, CONTAINER, namespace=self.namespace
                )
            said = await self._answer(self._main, safe.encode(), given)
        if said == NOT_THERE.encode():  # the main process waits for another line
            return Ran(b"", "", NO_PYTHON_CODE)
        errors = self._main.errors.decode("utf-8", "replace").strip()
        await self.detach()
        try:
            ready_in(said.partition(MARK)[2])
        except NotReady:
            self._is_over = True
            return Ran(said, errors, await self._exit_code())
        return Ran(said, errors, 0)

    @staticmethod
    async def _answer(main: PodStream, line: bytes, given: bytes) -> bytes:
        """What the main process says to a line, up to the first frame of a resident."""
        said = b""
        await main.write(line)
        while data := await main.read():
            is_new, said = MARK not in said, said + data
            if NOT_THERE.encode() in said:
                return NOT_THERE.encode()
            if is_new and MARK in said:
                await _feed(main, given)
            if is_answered(said.partition(MARK)[2]):
                break
        return said

    async def detach(self) -> None:
        """Closes the stream to the main process."""
        if self._main is not None:
            await self._main.close()
            self._main = None

    async def _exit_code(self) -> int:
        """The exit code of the main process, as soon as its object shows it."""
        with contextlib.suppress(TimeoutError, Gone):
            async with asyncio.timeout(ENDED_SECONDS):
                while True:
                    for container in (self.object.get("status") or {}).get(
                        "containerStatuses"
                    ) or ():
                        if ended := (container.get("state") or {}).get("terminated"):
                            code: int = ended["exitCode"]
                            return code
                    await self._changed()
        return 1

    async def run(self, script: str, given: bytes, seconds: float) -> Ran:
        """By an exec of its own. `head` ends the input: version 4 of the protocol cannot."""
        await self._renewed()
        words = ["sh", "-c", f"head -c {len(given)} | {{ {script}\n}}" if given else script]
        async with asyncio.timeout(seconds):
            stream = await self._exec(words, with_input=bool(given))
            writing = asyncio.ensure_future(_feed(stream, given))
            output = b""
            try:
                while data := await stream.read():
                    output += data
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
                await stream.close()
        errors = stream.errors.decode("utf-8", "replace").strip()
        if stream.exit_code is None:
            raise ApiFailure(500, "ExecFailed", stream.failure)
        return Ran(output, errors, stream.exit_code)

    async def connect(self, script: str) -> PodStream:
        """By an exec whose input ends with the connection."""
        return await self._exec(["sh", "-c", script], with_input=True)

    async def _exec(self, words: Sequence[str], *, with_input: bool) -> PodStream:
        return await self._cluster.stream(
            "exec", self.name, CONTAINER, words, with_input=with_input, namespace=self.namespace
        )

    async def why_lost(self) -> str:
        """Why its node does not run it; empty where that is not so, or may not be seen."""
        node = self.object["spec"].get("nodeName")
        try:
            return (
                why_lost(await self._cluster.request("GET", f"/api/v1/nodes/{node}"))
                if node
                else ""
            )
        except ApiFailure as error:
            return f"its node {node} was removed" if error.code == 404 else ""

    async def end(self, kept_for: str | None) -> None:
        """Deletes it at once; the kubelet kills its processes."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.object["metadata"]["uid"]}}
        try:
            await self._cluster.request("DELETE", self._path(), body)
        except ApiFailure as error:
            if error.code not in (404, 409):
                raise


async def _feed(stream: PodStream, given: bytes) -> None:
    for at in range(0, len(given), stream.size):
        await stream.write(given[at : at + stream.size])


def _cuts_off(policy: Any) -> bool:
    """Whether a NetworkPolicy selects our label and allows nothing."""
    spec = policy["spec"]
    wanted = spec.get("podSelector", {}).get("matchLabels", {})
    is_ours = wanted.get(NETWORK) == "off" and len(wanted) == 1
    both = set(spec.get("policyTypes") or ()) >= {"Ingress", "Egress"}
    return is_ours and both and not spec.get("ingress") and not spec.get("egress")

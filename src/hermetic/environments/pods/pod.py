"""One pod as a sandbox: created, waited for, run in, deleted."""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence

from hermetic.contract.concurrency import beside
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.environments.clouds.hosted import ROOT, Gone, Ran
from hermetic.environments.pods.api import ApiFailure, Cluster, Deleted, Object, PodStream
from hermetic.environments.pods.manifest import CONTAINER, READY_BY, merged
from hermetic.environments.pods.states import state_of, why_lost
from hermetic.environments.remote import MARK, python_line
from hermetic.link.archive import BOOT, NO_PYTHON_CODE
from hermetic.link.readiness import NotReady, is_answered, ready_in

ENDED_SECONDS = 10.0  # for the object of a pod to show that its main process has ended
NOT_THERE = "python3 is not there"  # what the waiting main process says instead of the mark


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

    @property
    def container(self) -> str:
        """The one that commands run in."""
        return CONTAINER

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or did not come up in its time."""
        state = state_of(self.object).state
        by = float(self.object["metadata"].get("annotations", {}).get(READY_BY, "inf"))
        return state == "gone" or (state != "running" and by < time.time())

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
        """Waits for the next state of its object. Raises Gone."""
        try:
            self.object = await self._cluster.changed(self._cluster.path("pods"), self.object)
        except Deleted as error:
            raise Gone("it was deleted before it ran") from error

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

    async def boot(self, python: str, given: bytes, seconds: float) -> Ran:
        """Replaces the waiting main process by a resident, by this Python and with that input.

        Returns once it is ready.
        """
        await self._renewed()
        line = python_line(BOOT, python=python)
        safe = f"if command -v {python} >/dev/null 2>&1; then {line}; else echo '{NOT_THERE}'; fi\n"
        async with asyncio.timeout(seconds):
            if self._main is None:
                self._main = await self._cluster.stream(
                    "attach", self.name, self.container, namespace=self.namespace
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
            output = b""
            try:
                async with beside(_feed(stream, given)):
                    while data := await stream.read():
                        output += data
            finally:
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
            "exec",
            self.name,
            self.container,
            words,
            with_input=with_input,
            namespace=self.namespace,
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


def selector_of(tags: Mapping[str, str]) -> str:
    """What selects objects with these labels; without any, all of ours."""
    return ",".join(f"{name}={value}" for name, value in tags.items()) or ROOT


async def _feed(stream: PodStream, given: bytes) -> None:
    for at in range(0, len(given), stream.size):
        await stream.write(given[at : at + stream.size])

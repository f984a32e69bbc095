"""The MCP server: handlers for both protocol eras, to be attached to any transport."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmptyResult,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    ResourceListChangedNotification,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hermetic.contract import VERSION
from hermetic.contract.concurrency import beside
from hermetic.mcp import resources
from hermetic.mcp.calls import Call, Question
from hermetic.mcp.client import About, Client, ServeOptions
from hermetic.mcp.greeting import INSTRUCTIONS, NAME
from hermetic.mcp.presence import Clients, TooMany
from hermetic.mcp.progress import report_quietly
from hermetic.mcp.questions import opens_pages, takes_forms
from hermetic.mcp.results import described_tool, failure, tool_result
from hermetic.mcp.secret_page import SecretPages

QUESTION = "question"  # key of the one input request of a result
UNCLAIMED = 600.0  # seconds: a call whose question was sent waits for the repeated request
TASK_META = "hermetic/task"  # in a call's _meta: which of the client's environments it means
STARTS_PROCESSES = ("terminal", "execute_code")
OVER = "this question is not open any more: it was answered, or came too late; call the tool again without a state"

Context = ServerRequestContext[Any, Any]

_log = logging.getLogger("hermetic.mcp")


def one_client(_: Context) -> Hashable:
    """The client of a transport that has just one."""
    return ""


class Handlers:
    """The handlers of one server, the same for every transport.

    `client_of` tells the clients of a transport apart. Where clients may leave without a word, one
    without a request for `lease` seconds is closed.
    """

    def __init__(
        self,
        given: ServeOptions,
        client_of: Callable[[Context], Hashable] = one_client,
        *,
        lease: float | None = None,
        pages: SecretPages | None = None,
    ) -> None:
        self._given = given
        self._client_of = client_of
        self._pages = pages
        self.clients = Clients(lease)

    def server(self) -> Server[Any]:
        """A server with these handlers; a transport runs it."""
        return Server(
            NAME,
            version=VERSION,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
            # no tool takes an argument from a header, so none is compared
            get_tool_input_schema=lambda _: None,
        )

    async def close(self) -> None:
        """Ends all calls, and the environments that belong to clients alone."""
        await self.clients.close()

    def _client(self, context: Context) -> Client:
        capabilities, params = context.session.client_capabilities, context.session.client_params
        about = About(
            name=params.client_info.name if params is not None else "",
            takes_forms=takes_forms(capabilities),
            opens_pages=opens_pages(capabilities),
        )
        try:
            return self.clients.get(
                self._client_of(context), lambda: Client(self._given, about, self._pages)
            )
        except TooMany as error:
            raise MCPError(INTERNAL_ERROR, str(error)) from None

    async def _list_tools(
        self, context: Context, _: PaginatedRequestParams | None
    ) -> ListToolsResult:
        toolbox = await self._client(context).ready()
        return ListToolsResult(tools=[described_tool(schema) for schema in toolbox.schemas("mcp")])

    async def _call_tool(
        self, context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        client, arguments = self._client(context), params.arguments or {}
        if params.request_state is None:
            call: Call | None = client.start(params.name, arguments, client.task_id(_task(context)))
        else:
            call = client.calls.find(params.request_state, params.name, arguments)
            if call is not None:
                call.resume(params.request_state, _reply(params))
        return failure(OVER) if call is None else await self._result(context, client, call)

    async def _result(
        self, context: Context, client: Client, call: Call
    ) -> CallToolResult | InputRequiredResult:
        is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        try:
            async with beside(report_quietly(client, call, partial(_report, context))):
                while (question := await call.next_question()) is not None:
                    if is_modern:
                        request = ElicitRequest(params=question.params)
                        state = call.suspend(question, UNCLAIMED)
                        return InputRequiredResult(
                            input_requests={QUESTION: request}, request_state=state
                        )
                    await _elicit(context, question)
                text = await call.task
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if call.task.cancelled() and own is not None and not own.cancelling():
                return failure(OVER)
            call.task.cancel()  # it ends its process tree in its own time; no answer waits for it
            raise
        except Exception:
            client.calls.forget(call)
            _log.exception("the call of %s failed", call.name)
            return failure(
                f"the tool {call.name} failed: a mistake of the server, which its log describes"
            )
        client.calls.forget(call)
        notices, client.notices = client.notices, []
        answer = json.loads(text)
        if "session_id" in answer and call.name in STARTS_PROCESSES:
            await _announce(context, client)
        return tool_result(text, answer, notices)

    # -- resources
    async def _list_resources(
        self, context: Context, _: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        return ListResourcesResult(
            resources=await resources.listed(self._client(context), _task(context))
        )

    async def _list_templates(
        self, _: Context, __: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=resources.TEMPLATES)

    async def _read_resource(
        self, context: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        try:
            return ReadResourceResult(
                contents=[await resources.read(self._client(context), str(params.uri))]
            )
        except resources.NoResource as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None

    async def _subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        """Handshake era: updates are notifications of the connection."""
        client, uri = self._client(context), str(params.uri)
        watch = await _watch(client, uri, context.session.send_resource_updated)
        await self._unsubscribe(context, params)
        client.watches[uri] = watch
        return EmptyResult()

    async def _unsubscribe(
        self, context: Context, params: SubscribeRequestParams | UnsubscribeRequestParams
    ) -> EmptyResult:
        if (watch := self._client(context).watches.pop(str(params.uri), None)) is not None:
            watch.cancel()
        return EmptyResult()

    async def _listen(
        self, context: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Modern era: updates are part of this request's own stream."""
        client, bus = self._client(context), InMemorySubscriptionBus()

        async def publish(uri: str) -> None:
            await bus.publish(ResourceUpdated(uri=uri))

        watches: list[asyncio.Task[None]] = []
        client.buses.add(bus)
        try:
            for uri in map(str, params.notifications.resource_subscriptions or ()):
                watches.append(await _watch(client, uri, publish))
            return await ListenHandler(bus)(context, params)
        finally:
            client.buses.discard(bus)
            for watch in watches:
                watch.cancel()


async def _watch(
    client: Client, uri: str, notify: Callable[[str], Awaitable[None]]
) -> "asyncio.Task[None]":
    """Notifies of changes of a resource from now on. Raises MCPError."""
    try:
        before = await resources.version(client, uri)
    except resources.NoResource as error:
        raise MCPError(INVALID_PARAMS, str(error)) from None

    async def watch() -> None:
        # the client is gone
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for _ in resources.changes(client, uri, before):
                await notify(uri)

    return asyncio.create_task(watch())


async def _report(context: Context, seconds: float, message: str) -> None:
    """Sends progress to a client that wants it."""
    await context.session.report_progress(seconds, None, message)


async def _announce(context: Context, client: Client) -> None:
    """Tells the client that there is another log."""
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        await context.session.send_notification(ResourceListChangedNotification())
    for bus in list(client.buses):
        await bus.publish(ResourcesListChanged())


def _reply(params: CallToolRequestParams) -> ElicitResult:
    reply = (params.input_responses or {}).get(QUESTION)
    return reply if isinstance(reply, ElicitResult) else ElicitResult(action="cancel")


def _task(context: Context) -> str:
    """The environment that a call names among its client's; "" is the usual one."""
    name = (context.meta or {}).get(TASK_META)
    return "" if name is None else str(name)


async def _elicit(context: Context, question: Question) -> None:
    """Asks in the handshake era, where a server may send requests; a question that was given up is
    taken back.
    """
    asking = asyncio.ensure_future(_ask(context, question))
    try:
        await asyncio.wait([asking, question.reply], return_when=asyncio.FIRST_COMPLETED)
    finally:
        asking.cancel()
    if asking.done() and not asking.cancelled():
        if (error := asking.exception()) is not None:
            _log.warning("the client could not ask its user: %s", error)
            question.settle(ElicitResult(action="cancel"))
        else:
            question.settle(asking.result())


def _ask(context: Context, question: Question) -> Awaitable[ElicitResult]:
    params, id = question.params, context.request_id
    if isinstance(params, ElicitRequestFormParams):
        return context.session.elicit_form(
            params.message, params.requested_schema, related_request_id=id
        )
    return context.session.elicit_url(
        params.message, params.url, params.elicitation_id or "", related_request_id=id
    )

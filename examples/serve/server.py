"""How many connections are open, and for how long: uvicorn with an accept loop that stops where it is full.

A client that is refused comes again at once, and refusals of thousands leave no time for answers. So clients beyond the
limit are not accepted: they wait in the operating system's queue, where they cost nothing.
"""

import asyncio
import logging
import socket
import sys
import time
from typing import Any, final

import uvicorn

log = logging.getLogger("serve")
_FULL = 0.005  # seconds between two looks whether a connection has ended


@final
class Server(uvicorn.Server):
    """A server of HTTP with a limit of open connections.

    Args:
        config: The application and the address.
        connections: How many connections are open at one time; further clients wait until they are accepted.
        seconds: How long a connection stays open on which a client sends no whole head, or does not read its answer.
    """

    def __init__(self, config: uvicorn.Config, *, connections: int, seconds: float) -> None:
        super().__init__(config)
        self._limit = connections
        self._seconds = seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then accept; clients that connect meanwhile wait."""
        listening = sockets or [self._listening()]
        await super().startup(sockets=[])
        for one in listening:
            one.setblocking(False)
        acceptors: list[Any] = [_Acceptor(self, one, self._limit, self._seconds) for one in listening]
        self.servers += acceptors
        for one in listening:
            host, port = one.getsockname()[:2]
            log.info("running on http://%s:%d (Ctrl-C ends it)", f"[{host}]" if ":" in host else host, port)

    def _listening(self) -> socket.socket:
        """A socket of the address."""
        host, port = self.config.host, self.config.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            return socket.create_server((host, port), family=family, backlog=self.config.backlog)
        except OSError as error:
            log.error("%s:%d: %s", host, port, error)
            sys.exit(1)


@final
class _Acceptor:
    """Accepts connections of one socket, and ends those that stand still; closed as an `asyncio.Server` is."""

    def __init__(self, server: Server, listening: socket.socket, limit: int, seconds: float) -> None:
        self.sockets = (listening,)
        self._server = server
        self._limit = limit
        self._seconds = seconds
        self._progress: dict[Any, tuple[Any, float]] = {}
        self._tasks = [asyncio.create_task(self._accept()), asyncio.create_task(self._watch())]

    def close(self) -> None:
        """Accept no more."""
        for task in self._tasks:
            task.cancel()
        self.sockets[0].close()

    async def wait_closed(self) -> None:
        """Wait until nothing is accepted."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        connections = self._server.server_state.connections
        while True:
            while len(connections) >= self._limit:
                await asyncio.sleep(_FULL)
            try:
                stream, _ = await loop.sock_accept(self.sockets[0])
                await loop.connect_accepted_socket(self._protocol, stream)
            except OSError as error:  # the client has left, or no file may be opened
                log.warning("a connection was not accepted: %s", error)
                await asyncio.sleep(_FULL)

    def _protocol(self) -> Any:
        server = self._server
        protocol: Any = server.config.http_protocol_class
        return protocol(config=server.config, server_state=server.server_state, app_state=server.lifespan.state)

    async def _watch(self) -> None:
        """Look from time to time for connections that wait for their client and on which nothing has changed."""
        while True:
            await asyncio.sleep(self._seconds / 4)
            now = time.monotonic()
            progress = {}
            for connection in self._server.server_state.connections:
                state = _waits_for_client(connection)
                if state is None:
                    continue
                before, since = self._progress.get(connection, (state, now))
                progress[connection] = (state, since if before == state else now)
            self._progress = progress
            for connection, (_, since) in progress.items():
                if now - since >= self._seconds:
                    connection.transport.abort()


def _waits_for_client(connection: Any) -> tuple[Any, int] | None:
    """What changes when a client goes on; None where the service has something to do, or ends the connection itself."""
    unread = connection.transport.get_write_buffer_size()
    begun = connection.cycle is not None and not connection.cycle.response_complete
    if not unread and (begun or connection.timeout_keep_alive_task is not None):
        return None
    return connection.cycle, unread

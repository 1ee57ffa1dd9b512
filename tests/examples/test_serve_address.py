"""The address of the service: when it is told, and what is said where it cannot be had."""

import asyncio
import socket
from typing import Any

import pytest
import uvicorn

from examples.serve import server as serving


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of the log."""
    lines: list[str] = []
    for level in ("info", "error"):
        monkeypatch.setattr(serving.log, level, lambda text, *given: lines.append(text % given))
    return lines


def _server(application: Any, port: int) -> serving.Server:
    config = uvicorn.Config(application, host="127.0.0.1", port=port, log_config=None)
    config.load()
    server = serving.Server(config, connections=1, seconds=1.0)
    server.lifespan = config.lifespan_class(config)
    return server


def test_it_runs_only_when_clients_are_accepted(said: list[str]) -> None:
    """A program that waits for this line connects at once."""
    at_start = []

    async def application(_: Any, receive: Any, send: Any) -> None:
        for kind in ("startup", "shutdown"):
            await receive()
            at_start.append(len(said))
            await send({"type": f"lifespan.{kind}.complete"})

    async def run() -> None:
        server = _server(application, 0)
        await server.startup()
        address = server.servers[0].sockets[0].getsockname()
        assert said == [f"running on http://127.0.0.1:{address[1]} (Ctrl-C ends it)"]
        socket.create_connection(address).close()
        await server.shutdown()

    asyncio.run(run())
    assert at_start == [0, 1]


def test_an_address_that_is_in_use_is_named(said: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SystemExit, match="1"):
            asyncio.run(_server(None, port).startup())
    (line,) = said
    assert line.startswith(f"127.0.0.1:{port}: [Errno 98] Address already in use")

"""What is left of a body when its request is answered already: read and thrown away, so that the answer arrives.

A connection that is closed while bytes come in is reset, and a client that was still sending loses the answer that
says why it was refused.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_PAUSE = 2.0  # seconds in which a client that sends has sent something


class Unread:
    """An application whose connections stay open for what clients still send, though not for long.

    The answer goes out whole before anything more is read: nobody waits for this but the connection.

    Args:
        application: What answers.
        seconds: How long the rest of a body may take; it ends before where nothing comes.
    """

    def __init__(self, application: Application, seconds: float) -> None:
        self._application = application
        self._seconds = seconds

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        coming = _sends_a_body(dict(scope["headers"]))

        async def receiving() -> Message:
            nonlocal coming
            message = await receive()
            coming = bool(message.get("more_body"))
            return message

        async def sending(message: Message) -> None:
            if not coming or message["type"] != "http.response.body" or message.get("more_body"):
                await send(message)
                return
            await send({**message, "more_body": True})
            try:
                async with asyncio.timeout(self._seconds):
                    while coming:
                        async with asyncio.timeout(_PAUSE):  # wait_for of Python 3.11 may lose the limit around it
                            await receiving()
            except TimeoutError:
                pass
            await send({"type": "http.response.body"})

        await self._application(scope, receiving, sending)


def _sends_a_body(headers: dict[bytes, bytes]) -> bool:
    """Whether a body follows the head unasked; a client that expects to be asked for it is not."""
    announced = b"transfer-encoding" in headers or headers.get(b"content-length", b"0").strip(b"0") != b""
    return announced and b"expect" not in headers

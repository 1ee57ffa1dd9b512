"""The service of `examples/serve` in a thread of its own, on the loopback address and a port that is free."""

import http.client
import io
import json
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

from examples.serve.app import Limits, application
from examples.serve.bodies import HEADERS, JSON, NPY
from examples.serve.models import Models
from examples.serve.server import Server

Array = Any
_PATIENCE = 60.0  # seconds for what takes milliseconds


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def array(self) -> Array:
        """The body as an `.npy` or an `.npz` file."""
        with HEADERS:  # the service runs in this process
            return np.load(io.BytesIO(self.body), allow_pickle=False)


@dataclass(frozen=True, slots=True)
class Service:
    """A service that runs."""

    port: int
    models: Models
    server: Server

    @property
    def connections(self) -> Collection[Any]:
        """Those that are open."""
        return self.server.server_state.connections

    def connect(self) -> http.client.HTTPConnection:
        """A connection of a client's own."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own."""
        connection = self.connect()
        try:
            connection.request(method, path, body, dict(headers or {}))
            return answer(connection)
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        """What there is to read."""
        return self.request("GET", path)

    def post(self, path: str, body: Any, kind: str = JSON, **headers: str) -> Answer:
        """A question: bytes, an object of JSON, or an array."""
        if isinstance(body, np.ndarray):
            file = io.BytesIO()
            np.save(file, body)
            body, kind = file.getvalue(), NPY
        elif not isinstance(body, bytes):
            body = json.dumps(body).encode()
        return self.request("POST", path, body, {"Content-Type": kind, **headers})

    def wait_for(self, digest: str) -> None:
        """Wait until another model answers."""
        until(lambda: self.models.current.digest == digest)


def answer(connection: http.client.HTTPConnection) -> Answer:
    """The answer that a connection waits for."""
    found = connection.getresponse()
    return Answer(found.status, {key.lower(): value for key, value in found.getheaders()}, found.read())


def until(holds: Any) -> None:
    """Wait until something holds."""
    end = time.monotonic() + _PATIENCE
    while not holds():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.005)


@contextmanager
def service(path: Path, **limits: Any) -> Iterator[Service]:
    """The service of a file."""
    models = Models(path)
    given = Limits(**limits)
    server = Server(
        uvicorn.Config(application(models, given, every=0.01), port=0, log_level="critical"),
        connections=given.connections,
        seconds=given.seconds,
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started and server.servers)
    try:
        yield Service(server.servers[0].sockets[0].getsockname()[1], models, server)
    finally:
        server.should_exit = True
        thread.join(_PATIENCE)
        assert not thread.is_alive()

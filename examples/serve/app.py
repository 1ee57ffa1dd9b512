"""The service: what is asked where, what is refused, and with which status."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from math import prod
from typing import Any

import numpy as np
from anyio import CapacityLimiter, Semaphore, move_on_after, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from plica.errors import InputError, PlicaError
from plica.runtime.arrays import as_numbers
from plica.runtime.entry_points import EntryPoint, free_sizes
from plica.runtime.manifest import ArrayType

from .bodies import JSON, NPY, NPZ, from_json, from_npy, to_json, to_npy, to_npz
from .models import Model, Models
from .unread import Unread

log = logging.getLogger("serve")
_OTHER_LISTS = 100  # in fields that are no arrays, each of which is refused by its name
ALIASES = {
    "score": ("log_likelihood", "score"),
    "marginal": ("marginal",),
    "conditional-sample": ("conditional_sample",),
    "complete": ("mpe",),
}
"""What a question is called here, and the entries of a file that answer it: the first that the file has."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request, and all of them together, may take.

    Args:
        threads: How many questions are answered at one time.
        requests: How many requests are read or answered at one time; others wait in the order in which they came.
        bytes: The largest body.
        rows: The largest size of an axis that is not fixed.
        seconds: How long the body of a request may take to arrive, and how long a request waits for its turn.
        connections: How many connections are open at one time; further clients wait until they are accepted.
    """

    threads: int = 2
    requests: int = 64
    bytes: int = 16 << 20
    rows: int = 100_000
    seconds: float = 30.0
    connections: int = 1000


def application(models: Models, limits: Limits | None = None, *, every: float = 1.0) -> Unread:
    """The service of the newest model at a path.

    Args:
        models: The models.
        limits: What requests may take.
        every: How many seconds lie between two looks at the file.
    """
    limits = limits or Limits()
    service = _Service(models, limits)

    @asynccontextmanager
    async def watching(_: Starlette) -> AsyncIterator[None]:
        service.begin()
        task = asyncio.create_task(service.watch(every))
        try:
            yield
        finally:
            task.cancel()

    routes = [
        Route("/health", service.health),
        Route("/model", service.describe),
        Route("/v1/{question}", service.ask, methods=["POST"]),
    ]
    handlers: Mapping[Any, Any] = {HTTPException: _refused, PlicaError: _bad_request, Exception: _failed}
    starlette = Starlette(routes=routes, lifespan=watching, exception_handlers=handlers)
    return Unread(starlette, limits.seconds)


class _Service:
    def __init__(self, models: Models, limits: Limits) -> None:
        self._models = models
        self._limits = limits
        self._turns: Semaphore
        self._threads: CapacityLimiter

    def begin(self) -> None:
        """Make what belongs to the event loop that runs now."""
        self._turns = Semaphore(self._limits.requests)
        self._threads = CapacityLimiter(self._limits.threads)

    async def watch(self, every: float) -> None:
        """Look for another model from time to time."""
        while True:
            await asyncio.sleep(every)
            try:
                await to_thread.run_sync(self._models.refresh)
            except Exception:
                log.exception("looking for another model failed; the old one goes on")

    async def health(self, _: Request) -> Response:
        """Whether calls are answered, by which model, and why a newer one is refused."""
        model = self._models.current
        refused = {"refused": self._models.refused} if self._models.refused else {}
        return JSONResponse({"status": "ok", "model": model.digest, "since": model.since, **refused})

    async def describe(self, _: Request) -> Response:
        """What the file says of itself."""
        model = self._models.current
        manifest = model.module.manifest
        entries = {
            one.name: {
                "text": one.text,
                "arguments": [asdict(given) for given in one.arguments],
                "results": [asdict(found) for found in one.shown],
                "draws": bool(one.draws),
            }
            for one in manifest.entries
            if one.public
        }
        questions = {name: entry for name in ALIASES if (entry := _entry_of(model, name)) is not None}
        return JSONResponse(
            {
                "model": model.digest,
                "since": model.since,
                "target": model.module.target.name,
                "provenance": dict(manifest.provenance),
                "questions": questions,
                "entries": entries,
                "limits": asdict(self._limits),
            }
        )

    async def ask(self, request: Request) -> Response:
        """One question; the body holds the rows, the answer has one entry for each."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (JSON, NPY):
            raise HTTPException(415, f"the content type is {JSON} or {NPY}, found {kind or 'none'!r}")
        async with self._turn():
            body = await self._body(request)
            model = self._models.current  # to the end of this request, whatever is loaded meanwhile
            name = request.path_params["question"]
            entry = _entry_of(model, name)
            if entry is None:
                names = [*(one for one in ALIASES if _entry_of(model, one)), *model.module.entries]
                have = ", ".join(dict.fromkeys(names))
                raise HTTPException(404, f"this model answers no {name!r}; it answers {have}")
            wanted = request.headers.get("accept", "*/*")
            as_json = JSON in wanted if kind == NPY else NPY not in wanted
            return await to_thread.run_sync(
                self._answer, model, entry, kind, body, dict(request.query_params), as_json, limiter=self._threads
            )

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait until one request more may be read; its body stays with the client meanwhile."""
        with move_on_after(self._limits.seconds) as waiting:
            await self._turns.acquire()
        if waiting.cancelled_caught:
            message = f"the request waited {self._limits.seconds:g} seconds for its turn; come again later"
            raise HTTPException(503, message, {"Retry-After": "1"})
        try:
            yield
        finally:
            self._turns.release()

    async def _body(self, request: Request) -> bytes:
        """The body; one that is too large is refused before it is read, or as soon as it turns out to be."""
        most = self._limits.bytes
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > most:
            raise _too_large(f"a body has at most {most} bytes, found {length[:20]}")
        parts, read = [], 0
        try:
            async with asyncio.timeout(self._limits.seconds):
                async for part in request.stream():
                    read += len(part)
                    if read > most:
                        raise _too_large(f"a body has at most {most} bytes, found more")
                    parts.append(part)
        except TimeoutError:
            raise HTTPException(408, f"the body did not arrive within {self._limits.seconds:g} seconds") from None
        except ClientDisconnect:
            raise HTTPException(400, "the body ended early") from None
        return b"".join(parts)

    def _answer(
        self, model: Model, name: str, kind: str, body: bytes, query: dict[str, str], as_json: bool
    ) -> Response:
        """What runs in a thread: arrays out of the body, the answer, and its text."""
        entry = model.module[name]
        most = self._most_lists(entry)
        if kind == JSON and body.count(b"[") > most + _OTHER_LISTS:  # reading those takes seconds
            raise _too_large(f"the arrays of {name} are at most {most} lists in one request, found more")
        given = from_json(body) if kind == JSON else {}
        for key, value in query.items():
            if not value.isdecimal() or len(value) > 18:
                raise InputError(f"{key} is a whole number, found {value!r:.60}")
            given[key] = int(value)
        if kind == NPY:
            if len(entry.entry.arguments) != 1:
                names = ", ".join(one.name for one in entry.entry.arguments) or "none"
                raise InputError(f"{name} takes the arguments {names}, not one array; send {JSON}")
            wanted = entry.entry.arguments[0]
            given[wanted.name] = as_numbers(from_npy(body), wanted, name)
        seed = given.get("seed", 0)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InputError(f"a seed is a whole number from 0 on, found {seed!r:.60}")
        self._check_sizes(entry, given)
        for one in entry.entry.arguments:
            if isinstance(given.get(one.name), list) and not given[one.name]:
                given[one.name] = _no_rows(one)
        arrays = entry.arrays(**given)
        results = {one.name: array for one, array in zip(entry.entry.shown, arrays, strict=True)}
        headers = {"X-Model": model.digest}
        if as_json:
            return Response(to_json(results, model=model.digest), media_type=JSON, headers=headers)
        if len(arrays) == 1:
            return Response(to_npy(arrays[0]), media_type=NPY, headers=headers)
        return Response(to_npz(results), media_type=NPZ, headers=headers)

    def _most_lists(self, entry: EntryPoint) -> int:
        """Of how many lists the arrays of a request may be made: one for each entry of each axis but the last."""
        shapes = [
            [dim if isinstance(dim, int) else self._limits.rows for dim in one.shape] for one in entry.entry.arguments
        ]
        return sum(prod(shape[:axis]) for shape in shapes for axis in range(len(shape)))

    def _check_sizes(self, entry: EntryPoint, given: Mapping[str, Any]) -> None:
        """Refuse more rows than one request may have, before anything is made for them."""
        arguments = {one.name: one for one in entry.entry.arguments}
        for name, value in given.items():
            if name not in arguments:  # a size, or what is refused by its name
                sizes = [value] if name in free_sizes(entry.entry) else []
            else:
                shape = np.shape(value) if isinstance(value, np.ndarray) else _outer_shape(value)
                sizes = [size for size, dim in zip(shape, arguments[name].shape, strict=False) if isinstance(dim, str)]
            if any(isinstance(size, int) and size > self._limits.rows for size in sizes):
                raise _too_large(f"{name} has at most {self._limits.rows} rows in one request, found {max(sizes)}")


def _no_rows(wanted: ArrayType) -> Any:
    """What an empty list stands for: no rows, of the right sizes where these are known."""
    if not wanted.shape or isinstance(wanted.shape[0], int) or any(isinstance(one, str) for one in wanted.shape[1:]):
        return []
    return np.zeros((0, *wanted.shape[1:]), wanted.dtype)


def _outer_shape(value: Any) -> list[int]:
    """The lengths of nested lists, by the first of each."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def _entry_of(model: Model, question: str) -> str | None:
    return next((name for name in (*ALIASES.get(question, ()), question) if name in model.module.entries), None)


def _too_large(message: str) -> HTTPException:
    return HTTPException(413, message)


async def _refused(request: Request, error: HTTPException) -> Response:
    detail = error.detail
    if detail == HTTPStatus(error.status_code).phrase:  # of the router, which says no more
        path = f"{request.method} {request.url.path}"
        detail = f"there is no {path:.200}; ask POST /v1/QUERY, GET /model or GET /health"
    return JSONResponse({"error": detail}, error.status_code, error.headers)


async def _bad_request(_: Request, error: PlicaError) -> Response:
    text = str(error).encode(errors="backslashreplace").decode()  # a name may hold half of a character
    return JSONResponse({"error": text}, 400)


async def _failed(_: Request, error: Exception) -> Response:
    log.error("a request failed", exc_info=error)
    return JSONResponse({"error": "the request failed here; the log of the service says why"}, 500)

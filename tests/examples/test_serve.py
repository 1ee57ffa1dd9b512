import asyncio
import contextlib
import errno
import gc
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import numpy as np
import pytest
import torch

import plica
import plica.native
from examples.serve.bodies import JSON, NPY, from_npy, to_npy
from examples.serve.models import Models, log
from examples.serve.unread import Unread
from plica.errors import FileFormatError, NativeFileError
from plica.extras import how_to_install
from plica.queries import mpe
from plica.runtime.container import beside, write
from plica.runtime.manifest import ArrayType, Entry, Rows
from tests.harness.circuits import pixels
from tests.harness.damaged_requests import requests
from tests.harness.native_files import MANIFEST, SHIFT, WEIGHT, code
from tests.harness.services import Answer, Service, answer, service, until
from tests.harness.together import grouped

_N3 = ("n", 3)
_X = ArrayType("x", "float32", ("n", 4))
ENTRIES = (
    Entry(
        "log_likelihood",
        "product",
        (_X,),
        (ArrayType("y", "float32", _N3),),
        constants=("weight",),
        rows=Rows("n", 100),
        text="Scores.",
    ),
    Entry("marginal", "slow", (ArrayType("x", "float64", ("n",)),), (ArrayType("y", "float64", ("n",)),)),
    Entry(
        "conditional_sample",
        "plus",
        (ArrayType("x", "float32", _N3),),
        (ArrayType("s", "float32", _N3),),
        draws=(ArrayType("u", "float32", _N3),),
    ),
    next(one for one in MANIFEST.entries if one.name == "drawn"),
    next(replace(one, name="mpe") for one in MANIFEST.entries if one.name == "echo"),
)
"""Functions that are written by hand, under the names that those of circuits have."""


def model_file(path: Path, factor: float = 1.0, **how: Any) -> str:
    """A file whose score is a product with a multiple of `WEIGHT`, put there in one step; its digest."""
    rooms = [one.tobytes().ljust(64, b"\0") for one in (WEIGHT * np.float32(factor), SHIFT, 2 * SHIFT)]
    parts = {"tensors": b"".join(rooms), "code/host": code()}
    write(path, parts, replace(MANIFEST, main="log_likelihood", entries=ENTRIES), **how)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that nobody gives another model."""
    path = tmp_path_factory.mktemp("serve") / "model.plicab"
    model_file(path)
    with service(path, bytes=200_000, rows=2000) as found:
        yield found


def _rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(-9, 10, (count, 4)).astype(np.float32)


@pytest.mark.parametrize("count", [0, 1, 7, 128, 1000])
def test_scores_of_batches_of_any_size(served: Service, count: int) -> None:
    x = _rows(count)
    found = served.post("/v1/score", x)
    assert found.status == 200
    assert found.headers["content-type"] == NPY
    assert found.headers["x-model"] == served.models.current.digest
    assert np.array_equal(found.array, x @ WEIGHT)
    if count:  # the empty list has one axis
        listed = served.post("/v1/score", {"x": x.tolist()})
        assert listed.headers["content-type"] == JSON
        assert listed.json == {"results": {"y": (x @ WEIGHT).tolist()}, "model": served.models.current.digest}


@pytest.mark.parametrize("dtype", ["float64", "int64", "float16", "uint8", ">f4"])
def test_arrays_of_other_dtypes_are_read_as_lists_are(served: Service, dtype: str) -> None:
    """numpy makes float64 and int64 unless it is told; JSON has no dtypes at all."""
    x = np.abs(_rows(5))
    assert np.array_equal(served.post("/v1/score", x.astype(dtype)).array, x @ WEIGHT)


def test_an_empty_list_is_a_batch_of_no_rows(served: Service) -> None:
    assert served.post("/v1/score", {"x": []}).json["results"] == {"y": []}
    assert served.post("/v1/conditional-sample", {"x": [], "seed": 1}).json["results"] == {"s": []}
    assert served.post("/v1/score", {"x": [[]]}).status == 400


def test_a_client_chooses_the_form_of_the_answer(served: Service) -> None:
    x = _rows(2)
    assert served.post("/v1/score", x, Accept=JSON).json["results"] == {"y": (x @ WEIGHT).tolist()}
    assert np.array_equal(served.post("/v1/score", {"x": x.tolist()}, Accept=NPY).array, x @ WEIGHT)


def test_entries_are_asked_by_their_own_names_too(served: Service) -> None:
    x = _rows(2)
    assert served.post("/v1/log_likelihood", x).body == served.post("/v1/score", x).body


def test_nan_and_infinities_go_in_and_out(served: Service) -> None:
    found = served.post("/v1/marginal", {"x": [None, "Infinity", "-Infinity", 1.5]})
    assert found.json["results"] == {"y": [None, "-Infinity", "Infinity", -1.5]}


def test_samples_are_those_of_their_seed(served: Service) -> None:
    x = np.zeros((5, 3), np.float32)
    first, again = (served.post("/v1/conditional-sample?seed=3", x).array for _ in range(2))
    assert np.array_equal(first, again)
    assert np.array_equal(first, np.random.default_rng(3).random((5, 3), "float32"))
    listed = served.post("/v1/conditional-sample", {"x": x.tolist(), "seed": 3}).json["results"]["s"]
    assert np.array_equal(np.asarray(listed, "float32"), first)
    assert not np.array_equal(served.post("/v1/conditional-sample", x).array, first)


def test_sizes_that_no_argument_has_are_given_by_name(served: Service) -> None:
    assert np.shape(served.post("/v1/drawn", {"n": 7, "seed": 0}).json["results"]["y"]) == (7, 3)


def test_several_results(served: Service) -> None:
    given = {"x": [1, 2], "flag": [True, False], "z": [[0.5, 1, 2], [3, 4, 5]], "s": 7}
    found = served.post("/v1/complete", given)
    assert found.json["results"] == given
    arrays = served.post("/v1/complete", given, Accept=NPY).array
    assert {name: arrays[name].tolist() for name in arrays.files} == given


def _npy(descr: str, shape: str, rest: bytes = b"") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + rest


BAD: tuple[tuple[str, str, Any, str, int, str], ...] = (
    ("no such question", "/v1/best", {}, JSON, 404, "answers no 'best'; it answers score, marginal"),
    ("no such page", "/", {}, JSON, 404, "there is no POST /; ask POST /v1/QUERY"),
    ("missing cells in whole numbers", "/v1/complete",
     {"x": [None, 2], "flag": [True] * 2, "z": [[0] * 3] * 2, "s": 7}, JSON, 400, "found NaN; whole.* as marginal"),
    ("neither JSON nor numpy", "/v1/score", b"x=1", "text/plain", 415, "content type is .* found 'text/plain'"),
    ("no JSON", "/v1/score", b"{", JSON, 400, "no JSON that can be read"),
    ("no text", "/v1/score", b"\xff\xfe{", JSON, 400, "no JSON that can be read"),
    ("no object", "/v1/score", [1, 2], JSON, 400, "expected an object .* found list"),
    ("nested too deep", "/v1/score", b'{"x":' + b"[" * 2_000, JSON, 400, "no JSON that can be read"),
    ("words", "/v1/score", {"x": [["a", 1, 2, 3]]}, JSON, 400, "expected numbers, .* found 'a'"),
    ("objects", "/v1/score", {"x": [{"y": 1}]}, JSON, 400, "found an object within one"),
    ("ragged", "/v1/score", {"x": [[1, 2, 3, 4], [1]]}, JSON, 400, "x: float32.* found list .* no array"),
    ("too wide", "/v1/score", {"x": [[1, 2, 3, 4, 5]]}, JSON, 400, "axis 1 of x has size 5, expected 4"),
    ("one row alone", "/v1/score", {"x": [1, 2, 3, 4]}, JSON, 400, "found an array of 1 axes"),
    ("missing", "/v1/score", {}, JSON, 400, "x missing"),
    ("unknown", "/v1/score", {"x": [[1, 2, 3, 4]], "y": 1}, JSON, 400, r"found 2 argument\(s\); y unknown"),
    ("a size in a list", "/v1/drawn", {"n": [2]}, JSON, 400, r"expected n as a number .* found \[2\]"),
    ("a size of nothing", "/v1/score", {"x": [[1, 2, 3, 4]], "n": 10**12}, JSON, 400, r"found 2 argument.*; n unknown"),
    ("too large", "/v1/score", {"x": [[1e300, 2, 3, 4]]}, JSON, 400, r"found the number 1e\+300, which float32"),
    ("whole numbers only", "/v1/complete", {"x": [1.5, 2], "flag": [True] * 2, "z": [[0] * 3] * 2, "s": 7}, JSON, 400,
     "x: int64.* found an array of dtype float64"),
    ("a seed of nothing", "/v1/score", {"x": [[1, 2, 3, 4]], "seed": 1}, JSON, 400, "takes no seed"),
    ("no seed", "/v1/drawn", {"n": 2, "seed": -1}, JSON, 400, "a seed is a whole number from 0 on, found -1"),
    ("no size", "/v1/drawn", {"n": "Infinity"}, JSON, 400, "expected n as a number of rows"),
    ("no number", "/v1/drawn?n=many", {}, JSON, 400, "n is a whole number, found 'many'"),
    ("another dtype", "/v1/score", np.zeros((1, 4), complex), NPY, 400, "complex128, which does not become float32"),
    ("no file", "/v1/score", b"PK\x03\x04", NPY, 400, "no .npy file"),
    ("an empty file", "/v1/score", b"", NPY, 400, "no .npy file"),
    ("objects in a file", "/v1/score", _npy("'|O'", "(1,)", b"x" * 8), NPY, 400, "expected an array of numbers"),
    ("structures", "/v1/score", _npy("[('a', '<f4')]", "(1,)", b"x" * 4), NPY, 400, "expected an array of numbers"),
    ("a short file", "/v1/score", _npy("'<f4'", "(2, 4)", b"x" * 8), NPY, 400, "has 32 bytes, found 8"),
    ("a file that lies", "/v1/score", _npy("'<f4'", "(10**15, 4)"), NPY, 400, "no .npy file"),
    ("a large lie", "/v1/score", _npy("'<f4'", "(1000000000000000, 4)"), NPY, 400, "found 0"),
    ("a negative size", "/v1/score", _npy("'<f4'", "(-1, 4)"), NPY, 400, "found 0"),
    ("entries of nothing", "/v1/score", _npy("'|V0'", "(2, 4)"), NPY, 400, "expected an array of numbers"),
    ("entries that are arrays", "/v1/score", _npy("('<f4', (4,))", "(1,)", b"x" * 16), NPY, 400, "array of numbers"),
    ("sizes beside a 0", "/v1/score", _npy("'<f4'", f"({2**62}, 0)"), NPY, 400, "there is no array of shape"),
    ("a hundred axes", "/v1/score", _npy("'<f4'", f"({'1, ' * 100})", b"x" * 4), NPY, 400, "there is no array"),
    ("a size that is true", "/v1/score", _npy("'<f4'", "(True, 4)", b"x" * 16), NPY, 400, "there is no array of shape"),
    ("a header that does not end", "/v1/score", _npy("(" * 300, "(1,)"), NPY, 400, "no .npy file"),
    ("a header without order", "/v1/score", _npy("'<f4', 1: 2", "(1,)"), NPY, 400, "no .npy file"),
    ("an argument called self", "/v1/score", b'{"x": [[0, 0, 0, 0]], "self": 1}', JSON, 400, "self unknown"),
    ("half a character", "/v1/score", b'{"x": [[0, 0, 0, 0]], "\\ud800": 1}', JSON, 400, r"\\ud800 unknown"),
    ("one array for several", "/v1/complete", np.zeros((1, 4)), NPY, 400, "takes the arguments x, flag, z, s"),
    ("refused by the code", "/v1/complete", {"x": [1] * 3, "flag": [True] * 3, "z": [[0] * 5] * 2, "s": 0}, JSON, 400,
     "3 entries are too many"),
    ("too many rows", "/v1/score", np.zeros((2001, 4), "float32"), NPY, 413, "at most 2000 rows .* found 2001"),
    ("too many lists", "/v1/score", b'{"x": [[' + b"[]," * 2101 + b"[]]]}", JSON, 413, "at most 2001 lists"),
    ("too many drawn", "/v1/drawn", {"n": 10**12}, JSON, 413, "at most 2000 rows .* found 1000000000000"),
    ("too many bytes", "/v1/score", b" " * 200_001, JSON, 413, "at most 200000 bytes, found 200001"),
)  # fmt: skip


@grouped("row", BAD, ids=lambda row: row[0])
def test_bad_requests_are_refused_with_a_message(served: Service, row: tuple[Any, ...]) -> None:
    _, path, body, kind, status, message = row
    found = served.post(path, body, kind)
    assert found.status == status
    assert re.search(message, found.json["error"])
    assert served.post("/v1/score", _rows(1)).status == 200


def test_other_methods_are_refused(served: Service) -> None:
    assert served.get("/v1/score").status == 405
    assert served.request("DELETE", "/model").status == 405


def test_a_body_that_is_too_large_is_refused_before_it_is_read(served: Service) -> None:
    connection = served.connect()
    connection.putrequest("POST", "/v1/score")
    connection.putheader("Content-Type", JSON)
    connection.putheader("Content-Length", str(10**15))
    connection.endheaders()
    assert answer(connection).status == 413
    connection.close()


def test_a_body_of_unknown_length_is_refused_when_it_gets_too_large(served: Service) -> None:
    pieces = itertools.repeat(b" " * 10_000, 21)
    found = served.request("POST", "/v1/score", pieces, {"Content-Type": JSON})
    assert found.status == 413
    assert "at most 200000 bytes" in found.json["error"]


@pytest.mark.parametrize(
    ("path", "kind", "status"), [("v1/score", JSON, 413), ("v1/score", "text/plain", 415), ("model", JSON, 405)]
)
def test_a_client_that_sends_all_before_it_reads_is_told_why(
    served: Service, path: str, kind: str, status: int
) -> None:
    """Closed by then, the connection would be reset while the client sends."""
    where = f"http://127.0.0.1:{served.port}/{path}"
    request = urllib.request.Request(where, bytes(8 << 20), {"Content-Type": kind})  # which urllib closes at once
    with pytest.raises(HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code == status
    assert json.load(refused.value)["error"]


@pytest.mark.parametrize("sends", [b"", b" "])
def test_a_client_that_is_refused_and_goes_on_slowly_is_not_waited_for(tmp_path: Path, sends: bytes) -> None:
    model_file(tmp_path / "model.plicab")
    with service(tmp_path / "model.plicab", seconds=0.2) as found, _refused(found) as stream:
        stream.settimeout(0.02)
        with contextlib.suppress(ConnectionError):
            until(lambda: _ended(stream, sends))


def test_the_answer_comes_before_the_rest_is_waited_for(tmp_path: Path) -> None:
    model_file(tmp_path / "model.plicab")
    with service(tmp_path / "model.plicab", seconds=1000) as found, _refused(found):
        pass


@contextlib.contextmanager
def _refused(served: Service) -> Iterator[socket.socket]:
    """The connection of a client that has read why it is refused, and has sent nothing of a large body yet."""
    connection = served.connect()
    connection.putrequest("POST", "/v1/score")
    for name, value in (("Content-Type", "text/plain"), ("Content-Length", "1000000"), ("Connection", "close")):
        connection.putheader(name, value)
    connection.endheaders()
    with connection.sock.dup() as stream:  # which stays open when the answer has been read
        assert answer(connection).status == 415
        yield stream


def _ended(stream: socket.socket, sends: bytes) -> bool:
    try:
        if stream.recv(1) == b"":
            return True
    except TimeoutError:
        pass
    stream.sendall(sends)
    return False


def test_the_limit_holds_where_a_piece_comes_just_then() -> None:
    """A piece that arrives as the limit ends; all after it come at once, without an end."""
    pieces, sent = itertools.count(), []

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.body"})

    async def receive() -> Any:
        if next(pieces) == 0:
            time.sleep(0.05)
        await asyncio.sleep(0)
        assert next(pieces) < 1000
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Any = {"type": "http", "headers": [(b"content-length", b"9999")]}
    asyncio.run(Unread(application, seconds=0.02)(scope, receive, send))
    assert sent[-1] == {"type": "http.response.body"}


def test_health_and_what_is_served(served: Service) -> None:
    health = served.get("/health").json
    assert (health["status"], health["model"]) == ("ok", served.models.current.digest)
    found = served.get("/model").json
    assert found["questions"] == {
        "score": "log_likelihood",
        "marginal": "marginal",
        "conditional-sample": "conditional_sample",
        "complete": "mpe",
    }
    assert found["provenance"] == {"source": "written by hand"}
    assert found["entries"]["log_likelihood"] == {
        "text": "Scores.",
        "arguments": [{"name": "x", "dtype": "float32", "shape": ["n", 4]}],
        "results": [{"name": "y", "dtype": "float32", "shape": ["n", 3]}],
        "draws": False,
    }
    assert found["limits"]["rows"] == 2000


def _hold(found: Service) -> Any:
    """A request whose body does not arrive."""
    connection = found.connect()
    connection.putrequest("POST", "/v1/score")
    connection.putheader("Content-Type", JSON)
    connection.putheader("Content-Length", "10")
    connection.endheaders(b"{")
    return connection


def test_more_requests_than_there_is_room_for_wait_for_their_turn(tmp_path: Path) -> None:
    model_file(tmp_path / "model.plicab")
    with service(tmp_path / "model.plicab", requests=1, seconds=1000) as found, ThreadPoolExecutor(8) as clients:
        first = _hold(found)
        until(lambda: len(found.connections) == 1)
        calls = [clients.submit(found.post, "/v1/score", _rows(count)) for count in range(8)]
        until(lambda: len(found.connections) == 9)
        assert not any(call.done() for call in calls)
        assert found.get("/health").status == 200
        first.close()
        for count, call in enumerate(calls):
            assert np.array_equal(call.result().array, _rows(count) @ WEIGHT)


def test_a_request_that_waits_too_long_for_its_turn_is_sent_away(tmp_path: Path) -> None:
    model_file(tmp_path / "model.plicab")
    with service(tmp_path / "model.plicab", requests=1, seconds=0.3) as found:
        held = [_hold(found) for _ in range(3)]  # the first has its turn until its body is late, the second the next
        statuses = sorted(answer(one).status for one in held)
        assert statuses[0] == 408
        assert statuses[-1] == 503
        for one in held:
            one.close()
        until(lambda: found.post("/v1/score", _rows(1)).status == 200)


@pytest.mark.parametrize("again", [False, True], ids=["new connections", "one connection each"])
def test_clients_beyond_all_limits_are_answered_in_the_end(tmp_path: Path, again: bool) -> None:
    """Many more than there are connections; each asks until it is answered, twice."""
    model_file(tmp_path / "model.plicab")
    with service(tmp_path / "model.plicab", requests=2, connections=4) as found, ThreadPoolExecutor(40) as clients:

        def ask(count: int) -> list[Answer]:
            if not again:
                return [found.post("/v1/score", _rows(count)) for _ in range(2)]
            assert len(found.connections) <= 4
            connection = found.connect()
            answers = []
            for _ in range(2):
                connection.request(
                    "POST", "/v1/score", json.dumps({"x": _rows(count).tolist()}), {"Content-Type": JSON}
                )
                answers.append(answer(connection))
            connection.close()
            return answers

        for answers in clients.map(ask, range(1, 41)):
            assert [one.status for one in answers] == [200, 200]


@pytest.mark.parametrize("head", [b"", b"POST /v1/score HTTP/1.1\r\nHost: x\r\n"])
def test_a_client_that_sends_no_whole_head_is_not_waited_for(tmp_path: Path, head: bytes) -> None:
    model_file(tmp_path / "model.plicab")
    with service(tmp_path / "model.plicab", connections=1, seconds=0.2) as found:
        with socket.create_connection(("127.0.0.1", found.port), timeout=60) as silent:
            silent.sendall(head)
            until(lambda: len(found.connections) == 1)
            assert silent.recv(1) == b""
        assert found.post("/v1/score", _rows(1)).status == 200


def test_a_client_that_does_not_read_its_answer_is_not_waited_for(tmp_path: Path) -> None:
    model_file(tmp_path / "model.plicab")
    with service(tmp_path / "model.plicab", connections=1, seconds=0.3) as found:
        body = json.dumps({"x": (_rows(100_000) / 3).tolist()}).encode()  # more than the system keeps for a client
        head = f"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.socket() as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.settimeout(60)
            silent.connect(("127.0.0.1", found.port))
            silent.sendall(head.encode() + body)
            until(lambda: any(one.transport.get_write_buffer_size() for one in found.connections))
            assert found.post("/v1/score", _rows(1)).status == 200  # accepted when the silent client is gone


def test_a_body_that_does_not_arrive_is_not_waited_for(tmp_path: Path) -> None:
    model_file(tmp_path / "model.plicab")
    with service(tmp_path / "model.plicab", requests=1, seconds=0.1) as found:
        waiting = _hold(found)
        late = answer(waiting)
        waiting.close()
        assert (late.status, late.json["error"]) == (408, "the body did not arrive within 0.1 seconds")
        until(lambda: found.post("/v1/score", _rows(1)).status == 200)


def test_damaged_requests_fail_alone(tmp_path: Path) -> None:
    """None is answered 500, none leaves a connection open, and the next answer is right."""
    model_file(tmp_path / "m.plicab")
    fields = {"x": [[1.0, 2.0, 3.0, 4.0]] * 3}
    with service(tmp_path / "m.plicab", seconds=0.5) as found, ThreadPoolExecutor(16) as clients:

        def status(data: bytes) -> bytes:
            with socket.create_connection(("127.0.0.1", found.port), timeout=10) as connection:
                connection.sendall(data)
                try:
                    return connection.recv(2**16)[9:12]
                except ConnectionError:
                    return b""

        good = found.post("/v1/score", fields).json
        statuses = set(clients.map(status, requests(fields, 80, seed=0)))
        assert {b"200", b"400"} <= statuses
        assert b"500" not in statuses
        until(lambda: not found.connections)
        assert found.post("/v1/score", fields).json == good


def test_no_request_is_lost_while_models_change(tmp_path: Path) -> None:
    path = tmp_path / "model.plicab"
    factors = {model_file(path): 1.0}
    with service(path) as found:

        def ask(number: int) -> tuple[int, Answer]:
            return number, found.post("/v1/score", _rows(number))

        with ThreadPoolExecutor(8) as clients:
            for factor in (2.0, 3.0, 4.0):
                calls = [clients.submit(ask, number % 5 * 60) for number in range(20)]
                digest = model_file(path, factor)
                factors[digest] = factor
                calls += [clients.submit(ask, number % 5 * 60) for number in range(20)]
                found.wait_for(digest)
                calls.append(clients.submit(ask, 200))
                for call in calls:
                    number, one = call.result()
                    assert one.status == 200, one.body
                    weight = WEIGHT * factors[one.headers["x-model"]]
                    assert np.array_equal(one.array, _rows(number) @ weight)
                assert one.headers["x-model"] == digest


def test_a_damaged_file_is_refused_and_the_old_one_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "model.plicab"
    digest = model_file(path)
    with service(path) as found:
        whole = path.read_bytes()
        damaged = tmp_path / "damaged"
        damaged.write_bytes(whole[:-100] + b"x" + whole[-99:])
        damaged.replace(path)
        until(lambda: "refused" in found.get("/health").json)
        health = found.get("/health").json
        assert health["model"] == digest
        assert str(path) in health["refused"]
        assert np.array_equal(found.post("/v1/score", _rows(3)).array, _rows(3) @ WEIGHT)
        mended = model_file(path, 2.0)
        found.wait_for(mended)
        assert "refused" not in found.get("/health").json
        path.unlink()
        assert np.array_equal(found.post("/v1/score", _rows(3)).array, _rows(3) @ (2 * WEIGHT))


def test_what_is_written_over_the_file_does_not_reach_the_model_that_answers(tmp_path: Path) -> None:
    """A file that is mapped changes with the one on the disk; a shorter one ends the process."""
    path = tmp_path / "model.plicab"
    model_file(path)
    models = Models(path)
    path.write_bytes(b"")
    assert np.array_equal(models.current.module(_rows(300)), _rows(300) @ WEIGHT)
    assert not models.refresh()
    assert np.array_equal(models.current.module(_rows(300)), _rows(300) @ WEIGHT)


def test_a_model_that_could_not_be_copied_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, copyfile = tmp_path / "model.plicab", shutil.copyfile
    model_file(path)
    models = Models(path)
    digest, logged = model_file(path, 2.0), []

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    monkeypatch.setattr(log, "error", lambda *words: logged.append(words))
    for _ in range(3):
        assert not models.refresh()
        assert models.refused == f"{path}: cannot be copied: No space left on device"
    assert len(logged) == 1
    monkeypatch.setattr(shutil, "copyfile", copyfile)
    assert models.refresh()
    assert (models.current.digest, models.refused) == (digest, "")


def test_weights_beside_a_model_come_and_go_with_it(tmp_path: Path) -> None:
    path, made, x = tmp_path / "model.plicab", tmp_path / "made", _rows(3)
    made.mkdir()
    model_file(path, beside=["tensors"])
    models = Models(path)
    digest = model_file(made / path.name, 2.0, beside=["tensors"])
    [name] = beside(made / path.name)
    (made / path.name).replace(path)
    assert not models.refresh()
    assert models.refused == f"{path}: its part tensors is the file {name}, which is not in the same folder; copy both"
    assert np.array_equal(models.current.module(x), x @ WEIGHT)
    assert not models.refresh()
    (made / name).replace(tmp_path / name)
    assert models.refresh()
    assert (models.current.digest, models.refused) == (digest, "")
    (tmp_path / name).write_bytes(b"")
    assert np.array_equal(models.current.module(x), 2 * x @ WEIGHT)
    assert not models.refresh()
    assert models.refused.startswith(f"{path}: its part tensors is the file {name}, which has 0 bytes")


def test_a_service_begins_with_a_whole_file(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"model.plicab: there is no such file"):
        Models(tmp_path / "model.plicab")
    with pytest.raises(FileFormatError, match=f"{tmp_path}: cannot be copied: Is a directory"):
        Models(tmp_path)
    path = tmp_path / "model.plicab"
    path.write_bytes(b"something else")
    with pytest.raises(NativeFileError, match=str(path)):
        Models(path)


@pytest.mark.full
def test_a_circuit_answers_its_questions(tmp_path: Path) -> None:
    circuit = pixels()
    model = plica.compile(circuit).eval()
    path = tmp_path / "model.plicab"
    plica.native.compile(model, path, queries=("log-likelihood", "marginal", "conditional-sample", "mpe"))
    x = np.random.default_rng(0).integers(3, size=(9, 4))
    some = np.where(x == 0, np.nan, x).astype("float32")
    rows = [[None if np.isnan(one) else float(one) for one in row] for row in some]
    with torch.no_grad(), service(path) as found:
        scores = found.post("/v1/score", x).array
        assert np.allclose(scores, model(torch.from_numpy(x)).numpy(), atol=1e-5)
        marginal = found.post("/v1/marginal", {"x": rows}).json["results"]["log_likelihood"]
        expected = model(torch.from_numpy(some)).numpy()
        assert np.allclose(marginal, expected, atol=1e-5)
        drawn = found.post("/v1/conditional-sample?seed=1", some).array
        best = found.post("/v1/complete", some).array
        for one in (drawn, best):
            assert np.array_equal(one["rows"][x != 0], x[x != 0])
        assert np.allclose(drawn["log_likelihood"], expected.ravel(), atol=1e-5)
        values = mpe(model, torch.from_numpy(some))[1].numpy()
        assert np.allclose(best["log_likelihood"], values.ravel(), atol=1e-5)


def test_the_command_needs_no_torch(tmp_path: Path) -> None:
    code = "import sys, examples.serve.__main__ as m; m.main() if len(sys.argv) > 1 else print('torch' in sys.modules)"
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src"), *sys.path])}
    run = [sys.executable, "-c", code]
    plain = subprocess.run(run, capture_output=True, text=True, env=env, check=True, cwd=root)
    assert plain.stdout.strip() == "False"
    missing = subprocess.run([*run, str(tmp_path / "no")], capture_output=True, text=True, env=env, check=False)
    assert (missing.returncode, missing.stderr.strip()) == (
        1,
        f"{tmp_path / 'no'}: there is no such file; write one with plica export",
    )


@pytest.mark.full
def test_the_service_ends_though_a_client_does_not_read(tmp_path: Path) -> None:
    """An answer that fills all buffers between here and there waits for the client, and the end no longer than told."""
    model_file(tmp_path / "model.plicab")
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src"), *sys.path])}
    command = [sys.executable, "-m", "examples.serve", str(tmp_path / "model.plicab"), "--port", "0", "--timeout", "5"]
    body = io.BytesIO()
    np.save(body, np.random.default_rng(0).random((100_000, 4), "float32"))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env, cwd=root) as process:
        try:
            assert process.stderr is not None
            log = iter(process.stderr.readline, "")
            port = next(
                int(found[1]) for line in log if (found := re.search(r"running on http://127.0.0.1:(\d+)", line))
            )
            client = HTTPConnection("127.0.0.1", port)
            client.sock = socket.create_connection(("127.0.0.1", port))
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.request("POST", "/v1/score", body.getvalue(), {"Content-Type": NPY, "Accept": JSON})
            assert client.getresponse().status == 200
            process.terminate()
            process.communicate(timeout=60)
            client.close()
        finally:
            process.kill()  # else a failure waits for the service for ever


def test_headers_are_read_by_one_thread_at_a_time() -> None:
    """Python 3.11 refuses now and then to read two at once, where a collection of garbage lets another thread run."""
    body = to_npy(np.ones((3, 4), "float32"))
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()

    def yielding(*_: object) -> None:
        time.sleep(0)

    gc.callbacks.append(yielding)
    gc.set_threshold(20)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            found = threads.map(lambda _: [from_npy(body).shape for _ in range(400)], range(8))
            assert all(shapes == [(3, 4)] * 400 for shapes in found)
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
        gc.callbacks.remove(yielding)


def test_a_missing_library_is_one_line_that_names_the_extra() -> None:
    code = "import runpy, sys; sys.modules['uvicorn'] = None; runpy.run_module('examples.serve', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"serve: import of uvicorn halted; None in sys.modules; {how_to_install('serve')}"
    ]

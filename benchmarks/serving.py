"""Answers per second of `examples/serve` where more clients ask than it takes: `python -m benchmarks.serving`.

Each client sends 200 rows as JSON on a new connection, and comes again after 0.1 s where it is refused. The counts of
each number of clients are taken twice: the second is the control.

Reads a native file (`plica export`): any that answers `score`, whose rows are drawn as small whole numbers.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from urllib.request import urlopen

_ROWS, _AGAIN = 200, 0.1


async def _ask(port: int, request: bytes, end: float, statuses: Counter[str]) -> None:
    """One client: asks until the end, and counts what comes back."""
    while time.monotonic() < end:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            status = (await reader.read()).split(b" ", 2)[1].decode()
            writer.close()
        except (OSError, IndexError) as error:
            status = type(error).__name__
        statuses[status] += time.monotonic() < end
        if status != "200":
            await asyncio.sleep(_AGAIN)


async def _flood(port: int, request: bytes, clients: int, seconds: float) -> dict[str, float]:
    statuses: Counter[str] = Counter()
    end = time.monotonic() + seconds
    asking = [asyncio.create_task(_ask(port, request, end, statuses)) for _ in range(clients)]
    await asyncio.wait(asking, timeout=seconds)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    return {status: round(count / seconds, 1) for status, count in sorted(statuses.items())}


def _request(port: int) -> bytes:
    """A question of rows that are all 0."""
    with urlopen(f"http://127.0.0.1:{port}/model", timeout=60) as answer:
        model = json.load(answer)
    [x] = model["entries"][model["questions"]["score"]]["arguments"]
    body = json.dumps({x["name"]: [[0] * x["shape"][1]] * _ROWS}).encode()
    head = (
        f"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", help="a native file")
    parser.add_argument("--clients", type=int, nargs="+", default=[40, 500, 3000])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--port", type=int, default=8123)
    given = parser.parse_args()
    command = [sys.executable, "-m", "examples.serve", given.path, "--port", str(given.port)]
    service = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                request = _request(given.port)
                break
            except OSError:
                time.sleep(0.1)
        counts = [
            {"clients": clients, "per second": asyncio.run(_flood(given.port, request, clients, given.seconds))}
            for _ in range(2)
            for clients in given.clients
        ]
    finally:
        service.terminate()
        service.wait()
    for one in counts:
        print(json.dumps(one))


if __name__ == "__main__":
    main()

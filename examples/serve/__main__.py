"""`python -m examples.serve model.plicab`: the service on the command line."""

import argparse
import logging
import os

from plica.errors import PlicaError
from plica.extras import how_to_install

try:
    import uvicorn

    from .app import Limits, application
    from .models import Models
    from .server import Server
except ModuleNotFoundError as error:
    raise SystemExit(f"serve: {error}; {how_to_install('serve')}") from None


def main() -> None:
    """Serve until interrupted; requests that run are finished, those of clients that do not read left after a while."""
    parser = argparse.ArgumentParser(prog="serve", description="Answers questions about rows of data over HTTP.")
    default = Limits(threads=os.cpu_count() or 1)
    parser.add_argument("path", help="a native file; another one at the same place takes over while calls run")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 for every machine that reaches this one")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--threads", type=int, default=default.threads, help="questions answered at one time")
    parser.add_argument(
        "--max-requests", type=int, default=default.requests, help="read or answered at one time; others wait"
    )
    parser.add_argument("--max-connections", type=int, default=default.connections, help="open at one time")
    parser.add_argument("--max-bytes", type=int, default=default.bytes, help="of the body of a request")
    parser.add_argument("--max-rows", type=int, default=default.rows, help="in a request")
    parser.add_argument(
        "--timeout", type=float, default=default.seconds, help="seconds for a body, for a turn, and to end"
    )
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two looks at the file")
    parser.add_argument("--public-key", type=bytes.fromhex, help="64 hex digits: serve what this key signed alone")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    try:
        models = Models(given.path, given.public_key)
    except PlicaError as error:
        parser.exit(1, f"{error}\n")
    limits = Limits(
        threads=given.threads,
        requests=given.max_requests,
        bytes=given.max_bytes,
        rows=given.max_rows,
        seconds=given.timeout,
        connections=given.max_connections,
    )
    config = uvicorn.Config(
        application(models, limits, every=given.every),
        host=given.host,
        port=given.port,
        timeout_graceful_shutdown=max(1, round(given.timeout)),
    )
    Server(config, connections=limits.connections, seconds=limits.seconds).run()


if __name__ == "__main__":
    main()

"""An S3-compatible store on loopback, and a proxy before it that misbehaves as it is told."""

import http.client
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

BUCKET = "bucket"
KEY, SECRET = "AKIAWHOEVERREADSTHIS", "the/secret+of/the/store"


def options(port):
    """Storage options for a store, or a proxy, at this port."""
    client = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1"}
    return {"key": KEY, "secret": SECRET, "client_kwargs": client}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def moto_server():
    """Start moto's server as a process of its own, with one empty bucket; gives its port."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while ask(port, "PUT", f"/{BUCKET}") != 200:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("moto's server did not start")
            time.sleep(0.1)
        yield port
    finally:
        process.kill()
        process.wait()


def ask(port, method, path):
    """Return the status of a request, None where nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    authorization = f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request"
    with suppress(OSError):
        connection.request(method, path, headers={"Authorization": authorization})
        return connection.getresponse().status
    return None


class Request(NamedTuple):
    """What came in."""

    method: str
    path: str
    range: str | None
    body: bytes


class Proxy(ThreadingHTTPServer):
    """Passes requests on to a store, or answers as a store in trouble does.

    Parameters
    ----------
    port : int
        Where the store is.
    trouble : callable, optional
        ``trouble(number, method, path)`` returns None, an HTTP status, "reset" or "stall".
    """

    daemon_threads = True
    request_queue_size = 100

    def __init__(self, port, trouble=None):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind, self.trouble = port, trouble
        self.requests: list[Request] = []
        self.stop = threading.Event()

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.shutdown()
        self.server_close()

    @property
    def port(self):
        return self.server_address[1]

    @property
    def counts(self):
        """Requests by method."""
        return Counter(request.method for request in self.requests)

    def handle_error(self, request, client_address):
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a body would wait 40 ms for the client to acknowledge its headers

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = self.server
        server.requests.append(Request(self.command, self.path, self.headers.get("Range"), body))
        trouble = server.trouble and server.trouble(len(server.requests), self.command, self.path)
        if trouble == "stall":
            server.stop.wait(60)
            self.close_connection = True
        elif trouble == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        elif trouble:
            code = {403: "AccessDenied", 500: "InternalError", 503: "ServiceUnavailable"}[trouble]
            self._answer(trouble, {"Content-Type": "application/xml"}, f"<Error><Code>{code}</Code></Error>".encode())
        else:
            self._pass_on(body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_one

    def _pass_on(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=60)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        self._answer(answer.status, dict(answer.getheaders()), answer.read())
        connection.close()

    def _answer(self, status, headers, body):
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = headers.get("Content-Length", len(body)) if self.command == "HEAD" else len(body)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args):
        """Nothing."""

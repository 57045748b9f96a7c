"""A stand-in for LangSmith's endpoint on this machine: takes runs, and shows them as a tree."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

# Asks for plain JSON, a few runs at a time: simple to read, if not fast.
INFO = {
    "batch_ingest_config": {
        "use_multipart_endpoint": False,
        "scale_up_qsize_trigger": 1000,
        "scale_up_nthreads_limit": 1,
        "scale_down_nempty_trigger": 4,
        "size_limit": 20,
        "size_limit_bytes": 20_000_000,
    },
    "instance_flags": {},
}


class StandIn:
    """Serves while it is entered.

    Attributes:
        runs: What was sent of each run, by its id: the post of its beginning, and over it the patch of its end.
    """

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """For `Client(api_url=…)` or LANGSMITH_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, run: dict[str, Any]) -> None:
        """Takes what is sent of a run; a patch leaves out what it does not change."""
        with self._lock:
            known = self.runs.setdefault(run["id"], {})
            known.update({key: value for key, value in run.items() if value is not None})

    def tree(self) -> str:
        """The runs as LangSmith would show them, one a line."""
        lines = []
        for run in sorted(self.runs.values(), key=lambda run: str(run["dotted_order"])):
            metadata = (run.get("extra") or {}).get("metadata", {})
            usage = metadata.get("usage_metadata") or (run.get("outputs") or {}).get("relay_usage") or {}
            tokens = usage.get("total_tokens", usage.get("tokens"))
            state = "failed" if run.get("error") else "ended" if run.get("end_time") else "open"
            lines.append("  " * run["dotted_order"].count(".") + f"{run['name']} ({run['run_type']}) {state}, {tokens} tokens")
        return "\n".join(lines)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        take = self.take

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(INFO)

            def do_POST(self) -> None:
                sent = self._read()
                batches = [runs for name in ("post", "patch") for runs in sent.get(name) or ()]
                for run in batches or [sent]:
                    take(run)
                self._answer({})

            def do_PATCH(self) -> None:
                take({**self._read(), "id": self.path.rsplit("/", 1)[-1]})
                self._answer({})

            def _read(self) -> dict[str, Any]:
                body = self.rfile.read(int(self.headers["content-length"]))
                read: dict[str, Any] = json.loads(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
                return read

            def _answer(self, data: dict[str, Any]) -> None:
                body = json.dumps(data).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler

"""A W&B server on loopback that remembers what it was sent and can fail on request; standard library only."""

import gzip
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PROJECT = {"id": "UDox", "name": "rllc", "entity": {"id": "RTox", "name": "me"}}
VIEWER = {"id": "VTox", "entity": "me", "username": "me", "email": "", "flags": "{}", "admin": False, "name": "me"}


@dataclass
class Server:
    """What arrived, and how to answer.

    Attributes:
        runs: variables of the last `UpsertBucket` of each run id.
        streams: lines of each file stream, by run id and file name.
        received: how many lines of history came for each run, those that came twice counted twice.
        uploads: bodies of uploaded files, by path.
        operations: names of the GraphQL operations, in order.
        sent: every request as it came, headers and unpacked body.
        unavailable: how many requests that bring something are still answered with 503.
        dead: requests on connections that are still open are cut off.
    """

    url: str = ""
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    streams: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)
    uploads: dict[str, bytes] = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    unavailable: int = 0
    dead: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)
    http: ThreadingHTTPServer | None = None

    def history(self, run: str) -> list[dict[str, Any]]:
        """Rows of history that arrived for a run."""
        with self.lock:
            return [json.loads(line) for line in self.streams.get(run, {}).get("wandb-history.jsonl", [])]

    def die(self) -> None:
        """Refuse new connections and cut off the open ones."""
        if not self.dead:
            self.dead = True
            self.http.shutdown()
            self.http.server_close()

    def stream(self, run: str, body: dict[str, Any]) -> None:
        """Take lines of a file stream, each at its place."""
        for name, chunk in (body.get("files") or {}).items():
            lines = self.streams.setdefault(run, {}).setdefault(name, [])
            lines[chunk.get("offset", 0) :] = chunk["content"]
            if name == "wandb-history.jsonl":
                self.received[run] = self.received.get(run, 0) + len(chunk["content"])

    def answer(self, operation: str, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Answer one GraphQL operation; None for one that may be left unanswered."""
        match operation:
            case "Viewer":
                return {"viewer": {**VIEWER, "teams": {"edges": []}, "apiKeys": {"edges": []}, "defaultEntity": None}}
            case "ServerFeaturesQuery":
                return {"serverInfo": {"features": [], "cliVersionInfo": {"max_cli_version": "0.99.0"}}}
            case "RunResumeStatus":
                return {"model": {**PROJECT, "bucket": self._bucket(asked["name"])}}
            case "UpsertBucket":
                return self._upsert(asked)
            case "CreateRunFiles":
                files = [{"name": name, "uploadUrl": f"{self.url}/{asked['run']}/{name}"} for name in asked["files"]]
                return {"createRunFiles": {"runID": "UnVu", "uploadHeaders": [], "files": files}}
            case "ArtifactType":
                return {"project": {"artifact": None}}
            case "CreateArtifact":
                sequence = {"id": "Uzox", "latestArtifact": None}
                return {
                    "createArtifact": {"artifact": {"id": "QTox", "state": "PENDING", "artifactSequence": sequence}}
                }
            case "CreateArtifactManifest":
                file = {"id": "Rjox", "name": "m", "displayName": "m", "uploadUrl": f"{self.url}/manifest"}
                file["uploadHeaders"] = []
                return {"createArtifactManifest": {"artifactManifest": {"id": "TTox", "file": file}}}
            case "CreateArtifactFiles":
                nodes = [self._artifact_file(file["name"]) for file in asked["input"]["artifactFiles"]]
                return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}
            case "CommitArtifact":
                return {"commitArtifact": {"artifact": {"id": "QTox", "digest": "d"}}}
        return None

    def _bucket(self, run: str) -> dict[str, Any] | None:
        """What a run that goes on has to know of itself."""
        if run not in self.runs:
            return None
        streams = self.streams.get(run, {})
        history, summary = streams.get("wandb-history.jsonl", []), streams.get("wandb-summary.json", [])
        return {
            "id": "UnVu", "name": run, "displayName": self.runs[run].get("displayName"), "tags": [],
            "historyLineCount": len(history), "eventsLineCount": 0, "logLineCount": 0,
            "historyTail": json.dumps(history[-1:]), "eventsTail": "[]", "summaryMetrics": (summary or ["{}"])[-1],
            "config": self.runs[run].get("config") or "{}", "wandbConfig": '{"t": 1}',
        }  # fmt: skip

    def _upsert(self, asked: dict[str, Any]) -> dict[str, Any]:
        run = asked["name"]
        inserted = run not in self.runs
        self.runs[run] = {**self.runs.get(run, {}), **{name: value for name, value in asked.items() if value}}
        bucket = {"id": "UnVu", "name": run, "displayName": asked.get("displayName") or run, "description": None}
        bucket |= {"config": asked.get("config") or "{}", "sweepName": None, "historyLineCount": None}
        return {"upsertBucket": {"bucket": {**bucket, "project": PROJECT}, "inserted": inserted}}

    def _artifact_file(self, name: str) -> dict[str, Any]:
        place = {"storagePath": f"a/{name}", "uploadUrl": f"{self.url}/artifact/{name}", "uploadHeaders": []}
        return {**place, "uploadMultipartUrls": None, "artifact": {"id": "QTox"}}


@contextmanager
def serve() -> Iterator[Server]:
    """Run a server on a free port of loopback."""
    state = Server()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(state)) as state.http:
        state.http.daemon_threads = True
        state.http.handle_error = lambda *_: None  # a client that goes away is no error
        state.url = f"http://127.0.0.1:{state.http.server_port}"
        thread = threading.Thread(target=state.http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield state
        state.die()
        thread.join()


def _handler(state: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._reply({})

        def do_PUT(self) -> None:
            body = self._body()
            with state.lock:
                state.uploads[self.path] = body
            self._reply({})

        def do_HEAD(self) -> None:
            self._reply({})

        def do_POST(self) -> None:
            body = self._body()
            with state.lock:
                refused = state.unavailable > 0
                state.unavailable -= refused
            if refused:
                self._reply({"errors": [{"message": "unavailable"}]}, 503)
            elif self.path == "/graphql":
                self._graphql(json.loads(body))
            elif found := re.fullmatch(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path):
                with state.lock:
                    if not state.dead:
                        state.stream(found[1], json.loads(body))
                self._reply({"exitcode": None, "limits": {}})
            else:
                self._reply({})

        def _graphql(self, asked: dict[str, Any]) -> None:
            operation = re.search(r"(?:query|mutation)\s+(\w+)", asked["query"])[1]
            with state.lock:
                state.operations.append(operation)
                self._reply({"data": state.answer(operation, asked.get("variables") or {})})

        def _body(self) -> bytes:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.headers.get("transfer-encoding") == "chunked":
                body = b"".join(self._chunks())
            body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
            with state.lock:
                state.sent.append(f"{self.command} {self.path}\n{self.headers}".encode() + body)
            return body

        def _chunks(self) -> Iterator[bytes]:
            while size := int(self.rfile.readline().strip() or b"0", 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()

        def _reply(self, answer: dict[str, Any], status: int = 200) -> None:
            if state.dead:
                self.close_connection = True
                return
            body = b"" if self.command == "HEAD" else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler

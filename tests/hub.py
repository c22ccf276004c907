"""A hub on the loopback interface that answers the real client libraries as the public one does."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

Files = dict[str, bytes]


@dataclass
class Hub:
    """Repositories by kind and id, each with the files of its revisions; what was asked of it; what it refuses."""

    repos: dict[tuple[str, str], dict[str, Files]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    sent: list[str] = field(default_factory=list)  # paths of files that were sent, wholly or in part
    asked: list[str] = field(default_factory=list)  # every path that was asked for
    authorizations: set[str] = field(default_factory=set)
    broken: dict[str, int] = field(default_factory=dict)  # how often a file is still to be cut in the middle
    url: str = ""

    def put(self, repo: str, files: Files, *, revision: str = "main", kind: str = "models") -> None:
        self.repos.setdefault((kind, repo), {})[revision] = files


def commit(repo: str, revision: str, files: Files) -> str:
    """What stands for the commit of a revision: a hash of all that is in it."""
    content = hashlib.sha1(f"{repo}@{revision}".encode())
    for name, data in sorted(files.items()):
        content.update(name.encode() + hashlib.sha256(data).digest())
    return content.hexdigest()


@contextmanager
def serving() -> Iterator[Hub]:
    """Serve an empty hub until the block ends."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def directed(monkeypatch: pytest.MonkeyPatch, url: str, cache: str) -> None:
    """Send the client libraries to a hub, and their caches to a folder; their constants were read at import."""
    import datasets.config
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", cache)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", url)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", f"{cache}/datasets")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", f"{cache}/token")


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(body)

    def _answer(self, body: bytes = b"") -> None:
        path = unquote(urlsplit(self.path).path).lstrip("/")
        self.hub.asked.append(path)
        if sent := self.headers.get("Authorization"):
            self.hub.authorizations.add(sent)
        if match := re.fullmatch(r"api/(models|datasets)/([^/]+/[^/]+)(?:/(.*))?", path):
            kind, repo, rest = match[1], match[2], match[3] or ""
            self._api(kind, repo, rest, body)
        elif match := re.fullmatch(r"(datasets/)?([^/]+/[^/]+)/resolve/(.+)", path):
            self._resolve("datasets" if match[1] else "models", match[2], match[3])
        else:
            self._error(404, "EntryNotFound")

    def _revision(self, kind: str, repo: str, rest: str) -> tuple[str, Files, str] | None:
        """The revision at the start of a path, its files, and the rest of the path."""
        revisions = self.hub.repos.get((kind, repo))
        if revisions is None:
            self._error(404, "RepoNotFound")
            return None
        if repo in self.hub.gated and not self.headers.get("Authorization"):
            self._error(401, "GatedRepo")
            return None
        for revision, files in revisions.items():
            for name in (revision, commit(repo, revision, files)):
                if rest == name or rest.startswith(f"{name}/"):
                    return revision, files, rest[len(name) + 1 :]
        self._error(404, "RevisionNotFound")
        return None

    def _api(self, kind: str, repo: str, rest: str, body: bytes) -> None:
        if rest == "refs" and (kind, repo) in self.hub.repos:
            if repo in self.hub.gated and not self.headers.get("Authorization"):
                return self._error(403, "GatedRepo")
            branches = [
                {"name": name, "ref": f"refs/heads/{name}", "targetCommit": commit(repo, name, files)}
                for name, files in self.hub.repos[kind, repo].items()
            ]
            return self._json({"branches": branches, "converts": [], "tags": []})
        what, _, rest = rest.partition("/")
        found = self._revision(kind, repo, rest if what else "main")
        if found is None:
            return None
        revision, files, rest = found
        sha = commit(repo, revision, files)
        entries = [
            {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
            for name, data in sorted(files.items())
        ]
        if what in ("", "revision"):
            siblings = [{"rfilename": name} for name in sorted(files)]
            info = {"_id": "0", "id": repo, "sha": sha, "private": False, "gated": repo in self.hub.gated,
                    "disabled": False, "downloads": 0, "likes": 0, "tags": [], "siblings": siblings}  # fmt: skip
            return self._json(info)
        if what == "tree":
            above = {parent.as_posix() for name in files for parent in PurePosixPath(name).parents} - {"."}
            entries += [{"type": "directory", "path": name, "oid": "0"} for name in sorted(above)]
            inside = [entry for entry in entries if not rest or str(entry["path"]).startswith(f"{rest}/")]
            if "recursive=true" not in self.path.lower():
                depth = len(PurePosixPath(rest).parts) + 1
                inside = [entry for entry in inside if len(PurePosixPath(str(entry["path"])).parts) == depth]
            return self._json(inside) if inside else self._error(404, "EntryNotFound")
        if what == "paths-info":
            text = body.decode()
            wanted = json.loads(text)["paths"] if text.startswith("{") else parse_qs(text).get("paths", [])
            return self._json([entry for entry in entries if entry["path"] in wanted])
        return self._error(404, "EntryNotFound")

    def _resolve(self, kind: str, repo: str, rest: str) -> None:
        found = self._revision(kind, repo, rest)
        if found is None:
            return
        revision, files, name = found
        if name not in files:
            self._error(404, "EntryNotFound", commit(repo, revision, files))
            return
        data, status, extra = files[name], 200, {}
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, stop = int(match[1]), int(match[2] or len(data) - 1) + 1
            if start >= len(data):
                self._error(416, "")
                return
            extra = {"Content-Range": f"bytes {start}-{min(stop, len(data)) - 1}/{len(data)}"}
            data, status = data[start:stop], 206
        self.send_response(status)
        for key, value in {
            "X-Repo-Commit": commit(repo, revision, files), "ETag": f'"{hashlib.sha256(files[name]).hexdigest()}"',
            "Accept-Ranges": "bytes", "Content-Length": str(len(data)), **extra,
        }.items():  # fmt: skip
            self.send_header(key, value)
        if self.command == "HEAD":
            self.end_headers()
            return
        self.hub.sent.append(f"{repo}@{revision}/{name}")
        if self.hub.broken.get(name, 0) > 0:
            self.hub.broken[name] -= 1
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
            return
        self.end_headers()
        self.wfile.write(data)

    def _json(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _error(self, status: int, code: str, sha: str = "") -> None:
        data = json.dumps({"error": code}).encode()
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        if sha:
            self.send_header("X-Repo-Commit", sha)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

"""A client of the language server for tests: frames on the pipes of a `heddle lsp` process, requests with their
answers, and what the server publishes meanwhile."""

import json
import os
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))


class Client:
    def __init__(self, cache, command=(HEDDLE, "lsp", "--stdio")):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**os.environ, "XDG_CACHE_HOME": str(cache)})
        self.changed = threading.Condition()
        self.answers, self.published, self.asked, self.orphans = {}, {}, [], []
        self.ended = False
        self.number = 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        out = self.process.stdout
        while True:
            length = None
            while (line := out.readline().strip()):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if length is None:
                break
            message = json.loads(out.read(length))
            with self.changed:
                if message.get("method") == "textDocument/publishDiagnostics":
                    self.published.setdefault(message["params"]["uri"], []).append(message["params"])
                elif message.get("id") is not None and "method" in message:
                    self.asked.append(message)  # a request of the server's
                elif message.get("id") is not None:
                    self.answers[message["id"]] = message
                else:
                    self.orphans.append(message)
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def send_bytes(self, body):
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def send(self, message):
        self.send_bytes(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def notify(self, method, **params):
        self.send({"method": method, "params": params})

    def ask(self, method, **params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        return self.number

    def wait(self, ready, seconds=60):
        with self.changed:
            if not self.changed.wait_for(lambda: ready() or self.ended, seconds):
                raise AssertionError("the server does not answer")
            if not ready():
                raise AssertionError("the server has ended")

    def answer(self, number):
        self.wait(lambda: number in self.answers)
        return self.answers[number]

    def request(self, method, **params):
        message = self.answer(self.ask(method, **params))
        if "error" in message:
            raise AssertionError(f"{method}: {message['error']}")
        return message["result"]

    # --- one document
    def start(self, root=None):
        result = self.request("initialize", processId=os.getpid(), rootUri=root and Path(root).as_uri(), capabilities={})
        self.notify("initialized")
        return result

    def open(self, path, text=None):
        uri = Path(path).as_uri()
        text = Path(path).read_text() if text is None else text
        self.notify("textDocument/didOpen", textDocument={"uri": uri, "languageId": "heddle", "version": 1, "text": text})
        return uri

    def change(self, uri, version, *changes):
        """Each change is (first line, first column, last line, last column, text)."""
        self.notify("textDocument/didChange", textDocument={"uri": uri, "version": version},
                    contentChanges=[{"range": {"start": {"line": a, "character": b}, "end": {"line": c, "character": d}}, "text": text}
                                    for a, b, c, d, text in changes])

    def messages(self, uri, version=None):
        """What is published for that version of the document."""
        def there():
            return any(version is None or one.get("version") == version for one in self.published.get(uri, []))
        self.wait(there)
        with self.changed:
            return [one for one in self.published[uri] if version is None or one.get("version") == version][-1]["diagnostics"]

    def at(self, method, uri, line, character):
        return self.request(f"textDocument/{method}", textDocument={"uri": uri}, position={"line": line, "character": character})

    def stop(self):
        if self.process.poll() is None:
            self.request("shutdown")
            self.notify("exit")
        status = self.process.wait(timeout=20)
        self.process.stdin.close()
        return status

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except OSError:
                pass

"""A small server on loopback for the fidelity gate."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hotset.adapter.gate_metrics import RESTORED

MODELS = '{"data": [{"id": "tiny"}]}'


@contextmanager
def serving(
    answer, restored_each=0.0, status=200, counter=RESTORED, metrics=None, models=MODELS
):
    """A server on loopback that answers prompts by a function.

    `metrics`, given what was restored, says status and value of the metrics.
    """
    count = [7.0]
    metrics = metrics or (lambda counted: (status, counted))

    class Handler(BaseHTTPRequestHandler):
        def reply(self, text, status=status):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self):
            if self.path == "/metrics":
                code, value = metrics(count[0])
                shown = f'# TYPE x counter\n{counter}{{engine="0"}} {value}\n'
                return self.reply(shown, code)
            return self.reply(models)

        def do_POST(self):
            size = int(self.headers["Content-Length"])
            asked = json.loads(self.rfile.read(size))
            assert asked["temperature"] == 0
            count[0] += restored_each
            self.reply(json.dumps({"choices": [{"text": answer(asked["prompt"])}]}))

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def told_key(prompt):
    return " " + prompt.partition("The passkey is ")[2][:6]

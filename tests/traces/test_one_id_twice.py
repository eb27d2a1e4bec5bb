"""One id twice in a request: every reader gives two blocks, and says what it did.

A block is what is cached behind all blocks before it, so the second one is another
block, stored and hit on its own. Ids that should stand for whole prefixes cannot be
twice in one: such a file is read by (parent, id), with a warning. The exchange form
holds blocks, not ids, and is refused.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import trace_files

from hotset.traces.errors import TraceError
from hotset.traces.options import ReadOptions
from hotset.traces.registry import FORMATS, read_trace
from hotset.traces.stats import hit_runs
from hotset.traces.write import write_trace

IDS = [1, 2, 1]
MOONCAKE = {**trace_files.MOONCAKE, "input_length": 1536, "hash_ids": IDS}
BAILIAN = {**trace_files.BAILIAN, "input_length": 48, "hash_ids": IDS}
GENERIC = {**trace_files.GENERIC, "input": 48, "ids": IDS}
RECORDING = {**trace_files.RECORDING, "input_length": 48, "block_size": 16}
REQUEST = {"t": 1, "type": "n", "in": 192, "out": 5, "hash_ids": IDS}
CSV = "time,input,output,ids\n1,48,2,1 2 1\n2,48,2,1 2 1\n"
CHAINED = ReadOptions(time_unit="s", block_tokens=16, chained=True)

CASES = {
    "mooncake": (trace_files.lines(MOONCAKE, MOONCAKE), None, True),
    "qwen-bailian": (trace_files.lines(BAILIAN, BAILIAN), None, False),
    "kv-cache-tester": (
        trace_files.lines({**trace_files.CONVERSATION, "requests": [REQUEST] * 2}),
        None,
        True,
    ),
    "recording": (
        trace_files.lines(*[{**RECORDING, "hash_ids": IDS}] * 2),
        None,
        True,
    ),
    "jsonl": (trace_files.lines(GENERIC, GENERIC), trace_files.DECLARED, False),
    "jsonl, chained": (trace_files.lines(GENERIC, GENERIC), CHAINED, True),
    "csv": (CSV.encode(), trace_files.DECLARED, False),
    "csv, chained": (CSV.encode(), CHAINED, True),
}
# These have no ids of their own: they are hashed from text, or made up.
WITHOUT_IDS = {"openai-chat", "sharegpt", "burstgpt", "azure-llm"}


def test_every_reader_is_here():
    told = {name.partition(",")[0] for name in CASES} | WITHOUT_IDS | {"parquet"}
    assert told == {spec.name for spec in FORMATS}


@pytest.mark.parametrize("name", CASES)
def test_is_two_blocks(tmp_path, name):
    content, options, declared_chained = CASES[name]
    path = tmp_path / "t"
    path.write_bytes(content)
    format = name.partition(",")[0]
    trace = read_trace(path, format, options=options or ReadOptions())
    assert trace.block_ids.tolist() == [0, 1, 2, 0, 1, 2]
    assert hit_runs(trace.accesses("count")).tolist() == [0, 3]
    said = any("more than one parent" in text for text in trace.provenance.warnings)
    assert said is declared_chained


@pytest.mark.parametrize("content", ["ab" * 200, "same text " * 60])
def test_text_that_repeats_itself_is_blocks_apart(tmp_path, content):
    tokenizer = trace_files.save_tokenizer(tmp_path / "tokenizer.json")
    chat = {"messages": [{"role": "user", "content": content}]}
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(chat))
    options = ReadOptions(tokenizer=str(tokenizer), block_tokens=2)
    trace = read_trace(path, options=options)
    assert trace.num_blocks == trace.num_accesses > 100


def test_the_exchange_form_is_refused(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(CASES["mooncake"][0])
    out = tmp_path / "t.parquet"
    write_trace(read_trace(path), out)
    table = pq.read_table(out)
    at = table.schema.get_field_index("block_ids")
    ids = pa.array([[0, 1, 2], [0, 1, 0]], pa.list_(pa.int32()))
    pq.write_table(table.set_column(at, table.schema.field(at), ids), out)
    with pytest.raises(TraceError, match="request 1: block_ids: got block 0 twice"):
        read_trace(out)


def test_a_part_of_a_request_is_not_the_request_again(tmp_path):
    """Behind another parent the same id is no hit."""
    rows = [{**BAILIAN, "hash_ids": ids} for ids in ([1, 2, 1], [2, 1, 2], [1, 1, 1])]
    path = tmp_path / "t.jsonl"
    path.write_bytes(trace_files.lines(*rows))
    trace = read_trace(path)
    assert hit_runs(trace.accesses("count")).tolist() == [0, 0, 1]
    assert np.diff(trace.request_offsets).tolist() == [3, 3, 3]

"""Fuzz target: one reader, fed by atheris; a trace or `TraceError`, else it ends.

    python -m support.fuzz_reader NAME CORPUS [libFuzzer options]

NAME is one of the files of `trace_files`; CORPUS a folder that holds it as a seed.
"""

import io
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["hotset.traces"]):
    from hotset.traces.errors import TraceError
    from hotset.traces.files import Source
    from hotset.traces.registry import FORMATS
    from hotset.traces.rows import BadRows

from support import trace_files


def main() -> None:
    name, corpus, *options = sys.argv[1:]
    folder = Path(corpus)
    needs = folder.with_name(f"{folder.name}-needs")
    needs.mkdir(exist_ok=True)
    content, format, read_options = trace_files.valid_files(needs)[name]
    folder.mkdir(exist_ok=True)
    (folder / "seed").write_bytes(content)
    spec = FORMATS.get(format)

    def read(data: bytes) -> None:
        for skip in (False, True):
            try:
                source = Source("t", io.BytesIO(data))
                spec.detect(source.head)
                spec.read(source, BadRows("t", skip, None, 1.0), read_options)
            except TraceError:
                pass

    atheris.Setup([sys.argv[0], *options, str(folder)], read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

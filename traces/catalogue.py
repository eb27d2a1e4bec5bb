"""Public traces: where they are, how large, under which licence, whom to cite."""

from dataclasses import dataclass

_MOONCAKE = (
    "https://raw.githubusercontent.com/kvcache-ai/Mooncake/main/FAST25-release/traces/"
)
_MOONCAKE_CITATION = (
    "Qin et al., Mooncake: Trading More Storage for Less Computation, FAST 2025"
)
# The `raw` address of these files gives a Git LFS pointer.
_BAILIAN = (
    "https://media.githubusercontent.com/media/alibaba-edu/"
    "qwen-bailian-usagetraces-anon/main/"
)
_BAILIAN_CITATION = (
    "Wang et al., KVCache Cache in the Wild: Characterizing and Optimizing KVCache "
    "Cache at a Large Cloud Provider, USENIX ATC 2025"
)
_AZURE = (
    "https://raw.githubusercontent.com/Azure/AzurePublicDataset/master/data/"
    "AzureLLMInferenceTrace_"
)
_AZURE_CITATION = (
    "Patel et al., Splitwise: Efficient Generative LLM Inference Using Phase "
    "Splitting, ISCA 2024"
)


@dataclass(frozen=True)
class PublicTrace:
    """One file that anybody can have.

    Attributes
    ----------
    name : str
        As users state it.
    address : str
        Of the file.
    file : str
        Name that it is saved under.
    format : str
        Registry name of its format.
    licence, citation : str
        As published.
    size_bytes : int or None
        Of the file; None where it is not known.
    sha256 : str or None
        Of the file; None where it is not known.
    """

    name: str
    address: str
    file: str
    format: str
    licence: str
    citation: str
    size_bytes: int | None = None
    sha256: str | None = None


def _mooncake(name: str, size: int | None, sha256: str | None) -> PublicTrace:
    file = f"{name}_trace.jsonl"
    return PublicTrace(
        name=f"mooncake-{name}",
        address=_MOONCAKE + file,
        file=f"mooncake_{name}.jsonl",
        format="mooncake",
        licence="Apache-2.0 (of the repository)",
        citation=_MOONCAKE_CITATION,
        size_bytes=size,
        sha256=sha256,
    )


def _bailian(
    name: str, file: str, size: int | None = None, sha256: str | None = None
) -> PublicTrace:
    return PublicTrace(
        name=f"qwen-bailian-{name}",
        address=f"{_BAILIAN}{file}",
        file=file,
        format="qwen-bailian",
        licence="Apache-2.0",
        citation=_BAILIAN_CITATION,
        size_bytes=size,
        sha256=sha256,
    )


def _azure(name: str) -> PublicTrace:
    return PublicTrace(
        name=f"azure-2023-{name}",
        address=f"{_AZURE}{name}.csv",
        file=f"azure_2023_{name}.csv",
        format="azure-llm",
        licence="CC-BY",
        citation=_AZURE_CITATION,
    )


CATALOGUE = {
    trace.name: trace
    for trace in (
        _mooncake(
            "conversation",
            3_029_533,
            "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df",
        ),
        _mooncake("toolagent", None, None),
        _mooncake(
            "synthetic",
            1_136_313,
            "bd070915a98fc0ed264d7cfef2ce746002eb3076a695ec31ba2674c0111ec131",
        ),
        _bailian("a", "qwen_traceA_blksz_16.jsonl"),
        _bailian("b", "qwen_traceB_blksz_16.jsonl"),
        _bailian(
            "coder",
            "qwen_coder_blksz_16.jsonl",
            132_054_902,
            "3d74974cebb7bccb69b1ca6ea210a44d9a3033443c0271ed015327284dea1aff",
        ),
        _bailian(
            "thinking",
            "qwen_thinking_blksz_16.jsonl",
            27_901_454,
            "41ac36d9d1b54d084eeb6b05e9d142ba9d02f8bf79cfc9fff418d8ab7cdee906",
        ),
        _azure("code"),
        _azure("conv"),
        PublicTrace(
            name="burstgpt",
            address="https://github.com/HPMLL/BurstGPT/releases/download/v1.1/"
            "BurstGPT_1.csv",
            file="burstgpt_1.csv",
            format="burstgpt",
            licence="CC BY 4.0",
            citation="Wang et al., BurstGPT: A Real-World Workload Dataset to Optimize "
            "LLM Serving Systems, KDD 2025",
        ),
    )
}

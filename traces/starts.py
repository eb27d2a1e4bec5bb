"""When conversations begin, in formats that only tell times within each."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotset.traces.errors import ArgumentError
from hotset.traces.options import ReadOptions

_DEFAULT = "exp:30s"
_ALLOWED = "exp:SECONDSs, for example exp:30s, or zero"
_EXPONENTIAL = re.compile(r"exp:(\d{1,9}(?:\.\d{1,9})?)s")


@dataclass(frozen=True)
class StartRule:
    """Rule that gives each conversation its start.

    Attributes
    ----------
    text : str
        As the user states it.
    mean_s : float
        Mean gap between starts in seconds; 0 means that all start at 0.
    seed : int
        Of the gaps.
    """

    text: str
    mean_s: float
    seed: int

    def starts_s(self, count: int) -> NDArray[np.float64]:
        """When conversations start, in their order.

        Parameters
        ----------
        count : int
            How many.

        Returns
        -------
        float64[count]
            Seconds: the sums of exponential gaps, the first one included.
        """
        if self.mean_s == 0:
            return np.zeros(count)
        gaps_s = np.random.default_rng(self.seed).exponential(self.mean_s, count)
        return np.cumsum(gaps_s)

    def used(self) -> tuple[tuple[str, str | int], ...]:
        """Return the options as used, for the provenance."""
        if self.mean_s == 0:
            return (("starts", self.text),)
        return (("starts", self.text), ("trace_seed", self.seed))


def start_rule(options: ReadOptions) -> StartRule:
    """Rule of the options `starts` and `trace_seed`.

    Parameters
    ----------
    options : ReadOptions
        Exponential gaps with a mean of 30 s and seed 0 where they say nothing.

    Returns
    -------
    StartRule
        The rule.

    Raises
    ------
    ArgumentError
        If `starts` is malformed, or a seed is given that nothing uses.
    """
    text = _DEFAULT if options.starts is None else options.starts
    if text == "zero":
        if options.trace_seed is not None:
            allowed = "none with starts zero, which draws nothing"
            raise ArgumentError("trace_seed", options.trace_seed, allowed)
        return StartRule(text, 0.0, 0)
    matched = _EXPONENTIAL.fullmatch(text)
    mean_s = float(matched[1]) if matched else 0.0
    if not mean_s:
        raise ArgumentError("starts", text, _ALLOWED)
    return StartRule(text, mean_s, options.trace_seed or 0)

"""What a tier runs: an eviction policy and an admission rule, with parameters."""

from __future__ import annotations

from dataclasses import dataclass

from hotset.policies.base import AdmissionSpec, Params, PolicySpec


@dataclass(frozen=True)
class Choice:
    """An eviction policy and an admission rule.

    Parameters
    ----------
    policy, params : PolicySpec, Params
        The eviction policy.
    admission, admission_params : AdmissionSpec, Params
        The admission rule.
    """

    policy: PolicySpec
    params: Params
    admission: AdmissionSpec
    admission_params: Params

    def describe(self) -> str:
        """Return the choice on one line."""
        admission = self.admission.label(self.admission_params)
        return f"policy {self.policy.label(self.params)}, admission {admission}"

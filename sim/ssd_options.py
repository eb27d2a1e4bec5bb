"""Options for an SSD tier behind the CPU tier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

if TYPE_CHECKING:
    from hotset.sim.capacity import Capacity
    from hotset.sim.ssd import Mode
    from hotset.sim.ssd_plan import SsdPlan

SsdOption = Annotated[
    str | None,
    typer.Option(
        "--ssd",
        metavar="N|50%|2TiB",
        help="Size of an SSD tier behind the CPU tier; none if absent.",
    ),
]
SsdPolicyOption = Annotated[
    str | None,
    typer.Option(
        "--ssd-policy",
        metavar="NAME[:key=value,...]",
        help="Its eviction policy; that of the CPU tier if absent.",
    ),
]
SsdAdmissionOption = Annotated[
    str | None,
    typer.Option(
        "--ssd-admission",
        metavar="NAME[:key=value,...]",
        help="What is worth being written to it: always, or threshold:min_count=2 for "
        "what that many requests named.",
    ),
]
SsdModeOption = Annotated[
    str | None,
    typer.Option(
        "--ssd-mode",
        metavar="write-through|demote",
        help="Write what the CPU tier has stored, or what it evicts. [default: "
        "write-through]",
    ),
]
SsdWritesOption = Annotated[
    str | None,
    typer.Option(
        "--ssd-writes-per-day",
        metavar="10TB",
        help="Bytes that may be written to it in any 24 hours.",
    ),
]
SsdQueueOption = Annotated[
    str | None,
    typer.Option(
        "--ssd-queue",
        metavar="4GiB",
        help="Bytes that may wait to be written; more are not written. A server's "
        "default is 256MiB; no bound if absent.",
    ),
]
SsdStagingOption = Annotated[
    float | None,
    typer.Option(
        "--ssd-staging",
        help="With demote: share of the CPU tier for chunks on their way to the SSD. "
        "[default: 0.125]",
    ),
]


def ssd_plan(
    size: str | None,
    policy: str | None,
    admission: str | None,
    mode: str | None,
    writes_per_day: str | None,
    queue: str | None,
    staging: float | None,
) -> SsdPlan | None:
    """Return the SSD tier that the options ask for, None where there is none.

    Raises
    ------
    PolicyError
        If a value is no such thing, or there is no ``--ssd`` beside the others.
    """
    from hotset.policies.errors import PolicyError
    from hotset.policies.registry import ADMISSIONS, POLICIES
    from hotset.sim.capacity import parse_capacity
    from hotset.sim.ssd_plan import SsdPlan

    given = {
        "--ssd-policy": policy,
        "--ssd-admission": admission,
        "--ssd-mode": mode,
        "--ssd-writes-per-day": writes_per_day,
        "--ssd-queue": queue,
        "--ssd-staging": staging,
    }
    if size is None:
        for option, value in given.items():
            if value is not None:
                raise PolicyError(f"{option}: there is no SSD tier without --ssd")
        return None
    if staging is not None and mode != "demote":
        raise PolicyError("--ssd-staging: only --ssd-mode demote has chunks staged")

    def capacity(text: str | None, option: str) -> Capacity | None:
        return None if text is None else parse_capacity(text, option)

    return SsdPlan(
        size=parse_capacity(size, "--ssd"),
        policy=None if policy is None else POLICIES.parse(policy),
        admission=ADMISSIONS.parse("always" if admission is None else admission),
        mode=cast("Mode", "write-through" if mode is None else mode),
        writes_per_day=capacity(writes_per_day, "--ssd-writes-per-day"),
        queue=capacity(queue, "--ssd-queue"),
        staging=0.125 if staging is None else staging,
    )

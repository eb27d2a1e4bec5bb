"""A scenario on each vLLM: models with Mamba layers, and the guard that 0.22 has."""

import random
from types import SimpleNamespace

import torch
from support.core_checks import make_spec
from support.core_config import BLOCK, supported
from support.core_engine import VERSION
from support.core_scenarios import scenario
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import MambaSpec

from hotset.adapter import compat
from hotset.adapter.errors import AdapterError
from hotset.adapter.hybrid import hybrid_faults


def groups_of(mode):
    """What a spec is told of a model with one group of Mamba layers."""
    mamba = supported(
        MambaSpec,
        block_size=BLOCK,
        shapes=((2, 4),),
        dtypes=(torch.float32,),
        mamba_cache_mode=mode,
    )
    return SimpleNamespace(kv_cache_groups=[SimpleNamespace(kv_cache_spec=mamba)])


def manager_for(kv_cache_config, **hotset):
    """The manager of a spec that is told of these groups."""
    spec = make_spec(extra={"hotset": hotset})
    spec.kv_cache_config = kv_cache_config
    return spec.get_manager()


def split(draw, counted_as_loaded):
    """New tokens of a prefill that starts with some tokens there, loaded or cached."""
    scheduler = SimpleNamespace(
        cache_config=SimpleNamespace(block_size=BLOCK), use_eagle=False
    )
    prompt, there = draw.randrange(1, 400), draw.randrange(400)
    request = SimpleNamespace(
        num_computed_tokens=0, num_prompt_tokens=prompt, num_tokens=prompt
    )
    new = draw.randrange(1, 400)
    counts = (0, there) if counted_as_loaded else (there, 0)
    aligned = Scheduler._mamba_block_aligned_split(scheduler, request, new, *counts)
    return aligned, there


@scenario
def mamba_guard():
    """The model is refused, or the guard is lifted and loads count as hits do."""
    is_guarded = VERSION.startswith("0.22")
    assert (compat.guarded_scheduler() is not None) == is_guarded
    assert hybrid_faults(groups_of("none"), False) == []
    assert hybrid_faults(None, False) == []
    if not is_guarded:
        assert hybrid_faults(groups_of("align"), False) == []
        return []
    try:
        manager_for(groups_of("align"))
        raise RuntimeError("was not refused")
    except AdapterError as error:
        assert '"allow_hybrid": true' in str(error)
    before = Scheduler._mamba_block_aligned_split
    manager_for(groups_of("none"), allow_hybrid=True)
    assert Scheduler._mamba_block_aligned_split is before
    try:
        manager_for(groups_of("align"), allow_hybrid=True)
        lifted = Scheduler._mamba_block_aligned_split
        manager_for(groups_of("align"), allow_hybrid=True)
        assert Scheduler._mamba_block_aligned_split is lifted is not before
        loaded = [split(random.Random(i), True) for i in range(300)]
        assert loaded == [split(random.Random(i), False) for i in range(300)]
        assert len(set(loaded)) > 100
    finally:
        Scheduler._mamba_block_aligned_split = before
    return []

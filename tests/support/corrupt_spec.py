"""hotset's spec with a fault planted: each load spoils one of its blocks."""

from hotset.adapter.spec import HotsetOffloadingSpec


class CorruptSpec(HotsetOffloadingSpec):
    """Gives the engine the first block of each load with its bytes reversed."""

    def get_worker(self, kv_caches):
        worker = super().get_worker(kv_caches)
        submit_load = worker.submit_load

        def load_and_spoil(job_id, source, target, *rest):
            submitted = submit_load(job_id, source, target, *rest)
            block = int(target.block_ids[0])
            for cache in kv_caches.tensors:
                cache.tensor[block] = cache.tensor[block].flip(0)
            return submitted

        worker.submit_load = load_and_spoil
        return worker

"""Errors of the adapter's surroundings."""


class AdapterError(RuntimeError):
    """A vLLM, or a machine under it, that is not supported: one clear line."""

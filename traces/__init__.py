"""Request traces: model, readers, generators, statistics."""

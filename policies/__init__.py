"""Eviction and admission policies: one text for simulator and server."""

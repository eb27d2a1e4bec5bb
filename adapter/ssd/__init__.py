"""The SSD tier: a bounded, durable cache on disk that never gives a wrong byte."""

"""The simulator: replay without a clock, and the commands over it."""

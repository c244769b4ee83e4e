"""Decisions: values and ``now_s`` in, a decision with its reason out. No I/O, no clock, no event loop."""

"""Measurements as ratios inside one run: `python -m benchmarks`."""

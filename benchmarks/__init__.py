"""What measures speed: `python -m benchmarks` prints one table of ratios. Nothing here asserts a
time.
"""

"""Many runs: processes, their order, and searches for settings."""

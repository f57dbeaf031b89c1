"""Before a run: what a command may say. Nothing is built here, and nothing needs torch."""

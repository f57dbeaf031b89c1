"""Before a run: what a command may say. No object of a run is built here, and torch is imported
only with the classes that a config names.
"""

"""elmo-bench: how much do deep contextual word representations help, which layers help which task, and is it real?"""

from .elmo import Elmo

__all__ = ["Elmo"]

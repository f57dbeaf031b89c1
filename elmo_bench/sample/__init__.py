from .corpus import files as files

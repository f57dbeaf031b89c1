"""A folder for each task. Folders called `tasks` elsewhere on Python's path, such as the working
folder's, may hold a user's own.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)

"""The plots of a report: import the file that draws one, where it is drawn.

Nothing is re-exported here, since all of them load matplotlib.
"""

"""The panels of a plot."""

from elmo_bench.report.plots import style


def panels(plot):
    """The axes of a plot that show something."""
    return [axes for axes in style.figure([plot]).axes if axes.axison]

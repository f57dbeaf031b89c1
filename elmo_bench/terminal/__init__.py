from .progress import Bars as Bars, Lines as Lines, counted as counted, watched as watched
from .words import (
    PlainLines as PlainLines,
    counted_noun as counted_noun,
    duration as duration,
    listed as listed,
    not_a_file as not_a_file,
    not_a_folder as not_a_folder,
    pip_install as pip_install,
    plain as plain,
    plain_lines as plain_lines,
    two_digits as two_digits,
)

from .archive import (
    SUFFIX as SUFFIX,
    pack as pack,
    run_folders as run_folders,
    unpacked as unpacked,
)
from .counts import (
    F1 as F1,
    Counts as Counts,
    counted as counted,
    figure as figure,
    number_of as number_of,
    read_counts as read_counts,
)
from .identity import (
    identity_of as identity_of,
    acting as acting,
    as_baseline as as_baseline,
    below as below,
    hash_files as hash_files,
    is_baseline as is_baseline,
    leaves as leaves,
    reads_apart as reads_apart,
    settings_digest as settings_digest,
)
from .portable import (
    OVERRIDES as OVERRIDES,
    key_of as key_of,
    overrides as overrides,
    portable as portable,
    portable_overrides as portable_overrides,
    short as short,
)
from .query import (
    ENCODER as ENCODER,
    MIX as MIX,
    NOTHING as NOTHING,
    WITHIN as WITHIN,
    Key as Key,
    check_files as check_files,
    distinguishing as distinguishing,
    equal as equal,
    full_keys as full_keys,
    is_without_layers as is_without_layers,
    values as values,
    varies as varies,
    where as where,
)
from .read import (
    SHORT as SHORT,
    Mix as Mix,
    Run as Run,
    check_types as check_types,
    collect as collect,
    corpus_of as corpus_of,
    failure_sentence as failure_sentence,
    failures as failures,
    flat_mix as flat_mix,
    overlap_lines as overlap_lines,
    Overlap as Overlap,
    frozen as frozen,
    read_run as read_run,
    text as text,
)
from .result import Result as Result, code as code, write_result as write_result
from .resume import (
    LAST_CHECKPOINT as LAST_CHECKPOINT,
    about as about,
    begin as begin,
    finished as finished,
    goes_on_from as goes_on_from,
    leaves_error as leaves_error,
    unfinished as unfinished,
)

from .download import (
    fetch as fetch,
    hash_content as hash_content,
    hash_file as hash_file,
)
from .files import (
    alone as alone,
    alone_for_now as alone_for_now,
    atomic as atomic,
    begins as begins,
    check_output as check_output,
    find_files as find_files,
    hold as hold,
    is_taken as is_taken,
    remove_scratch as remove_scratch,
    remove_unheld as remove_unheld,
    scratch_path as scratch_path,
    size_of as size_of,
    sole as sole,
    write_json as write_json,
    write_text as write_text,
)
from .read import (
    BOM as BOM,
    LINE_BYTES as LINE_BYTES,
    NOT_UTF8 as NOT_UTF8,
    PACKED_RATIO as PACKED_RATIO,
    opened as opened,
    parse_json as parse_json,
    read_arrays as read_arrays,
    read_json as read_json,
    unpacked_limit as unpacked_limit,
)

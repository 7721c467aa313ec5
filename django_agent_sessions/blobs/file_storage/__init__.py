"""Whole files in a Django storage, under exact names: reading, writing, deleting, listing.

Everything goes through the storage's own methods. Django's ``Storage`` leaves three things open
that are added here: on a file system, a file is durable when a call returns, and is replaced or
created atomically (:mod:`.local`); in an S3 bucket, one request reads a file, and its versions are
deleted with it (:mod:`.s3`); and several files are read, written and deleted in parallel.
"""

from __future__ import annotations

from .deletion import delete_files, try_deleting_files
from .folders import is_link, leads_through_link, list_folder, make_folder, remove_folder
from .parallel import in_parallel
from .reading import (
    has_size,
    read_file,
    read_files,
    read_untrusted,
    reads_parts,
    stream_file,
)
from .regular_files import open_regular_file
from .streams import Pieces
from .writing import add_file, create_file, write_file

__all__ = [
    "Pieces",
    "add_file",
    "create_file",
    "delete_files",
    "has_size",
    "in_parallel",
    "is_link",
    "leads_through_link",
    "list_folder",
    "make_folder",
    "open_regular_file",
    "read_file",
    "read_files",
    "read_untrusted",
    "reads_parts",
    "remove_folder",
    "stream_file",
    "try_deleting_files",
    "write_file",
]

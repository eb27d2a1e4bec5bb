"""A VFS for the SQLite of this process that tells of writes, truncations and syncs.

SQLite's own file methods run; each is told of before and after. The VFS is a copy of
SQLite's default one, of which a file's methods are replaced after it was opened. It is
made with ctypes in the library that the standard library's module has loaded.
"""

import ctypes as c
import os
import sqlite3  # noqa: F401 - loads the library
from pathlib import Path

NAME = b"hotset-recorder"
_OK = 0
_CREATE = 0x4
_SYNCS_FOLDER = 0x800 | 0x80000  # main journals and WALs, when they are new


def _method(*arguments):
    return c.CFUNCTYPE(c.c_int, *arguments)


_XOPEN = _method(c.c_void_p, c.c_char_p, c.c_void_p, c.c_int, c.POINTER(c.c_int))
_XDELETE = _method(c.c_void_p, c.c_char_p, c.c_int)
_XWRITE = _method(c.c_void_p, c.c_void_p, c.c_int, c.c_int64)
_XTRUNCATE = _method(c.c_void_p, c.c_int64)
_XSYNC = _method(c.c_void_p, c.c_int)


class _Vfs(c.Structure):
    _fields_ = (
        ("version", c.c_int),
        ("file_bytes", c.c_int),
        ("path_bytes", c.c_int),
        ("next", c.c_void_p),
        ("name", c.c_char_p),
        ("data", c.c_void_p),
        ("open", _XOPEN),
        ("delete", _XDELETE),
        ("others", c.c_void_p * 14),
    )


class _Methods(c.Structure):
    _fields_ = (
        ("version", c.c_int),
        ("close", c.c_void_p),
        ("read", c.c_void_p),
        ("write", _XWRITE),
        ("truncate", _XTRUNCATE),
        ("sync", _XSYNC),
        ("others", c.c_void_p * 13),
    )


def _library():
    """Return the SQLite that this process has loaded."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    names = {line.split()[-1] for line in maps if "sqlite3" in line}
    for name in sorted(names):
        library = c.CDLL(name)
        if hasattr(library, "sqlite3_vfs_find"):
            return library
    raise RuntimeError(f"none of {names} has SQLite's functions")


class RecordingVfs:
    """See the module.

    Parameters
    ----------
    log : object
        Has ``created(path, folder_is_synced)``, ``removed(path, is_synced)``, and the
        context managers ``write(path, offset, data)``, ``truncate(path, size)`` and
        ``sync(path)``, each around what it is about.
    """

    def __init__(self, log):
        self._log = log
        self._paths = {}
        self._methods = {}
        library = _library()
        library.sqlite3_vfs_find.restype = c.POINTER(_Vfs)
        library.sqlite3_vfs_find.argtypes = [c.c_char_p]
        library.sqlite3_vfs_register.argtypes = [c.POINTER(_Vfs), c.c_int]
        library.sqlite3_vfs_unregister.argtypes = [c.POINTER(_Vfs)]
        self._library = library
        self._stock = library.sqlite3_vfs_find(None)
        self._vfs = _Vfs.from_buffer_copy(self._stock.contents)
        self._vfs.name, self._vfs.next = NAME, None
        # Callbacks live as long as this object.
        self._vfs.open = self._open = _XOPEN(self._on_open)
        self._vfs.delete = self._delete = _XDELETE(self._on_delete)
        assert library.sqlite3_vfs_register(c.byref(self._vfs), 0) == _OK

    def close(self):
        """Take the VFS away again."""
        self._library.sqlite3_vfs_unregister(c.byref(self._vfs))

    def _on_open(self, _vfs, name, file, flags, out):
        is_new = name is not None and not os.path.exists(name)
        code = self._stock.contents.open(self._stock_address(), name, file, flags, out)
        if code == _OK and name is not None:
            path = name.decode()
            self._paths[file] = path
            if is_new and flags & _CREATE:
                self._log.created(path, bool(flags & _SYNCS_FOLDER))
            slot = c.cast(file, c.POINTER(c.c_void_p))
            slot[0] = c.addressof(self._recording(slot[0]))
        return code

    def _stock_address(self):
        return c.cast(self._stock, c.c_void_p)

    def _on_delete(self, _vfs, name, sync_folder):
        code = self._stock.contents.delete(self._stock_address(), name, sync_folder)
        if code == _OK:
            self._log.removed(name.decode(), bool(sync_folder))
        return code

    def _recording(self, address):
        """Return file methods that tell of what they do."""
        if address in self._methods:
            return self._methods[address][0]
        stock = _Methods.from_address(address)
        methods = _Methods.from_buffer_copy(stock)

        def write(file, data, length, offset):
            content = c.string_at(data, length)
            with self._log.write(self._paths[file], offset, content):
                return stock.write(file, data, length, offset)

        def truncate(file, size):
            with self._log.truncate(self._paths[file], size):
                return stock.truncate(file, size)

        def sync(file, flags):
            with self._log.sync(self._paths[file]):
                return stock.sync(file, flags)

        kept = (_XWRITE(write), _XTRUNCATE(truncate), _XSYNC(sync))
        methods.write, methods.truncate, methods.sync = kept
        self._methods[address] = methods, kept
        return methods

"""Where a search keeps its trials: Optuna's journal in a file, or a database.

One process alone reads and writes: workers run candidates and know nothing of Optuna.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hotset.policies.errors import PolicyError
from hotset.sim.objectives import Objective

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study

_BEGINNING = b'{"op_code"'
_LOCK = 0x686F74736574  # any number: of our lock in a PostgreSQL database


def check_storage(storage: str, jobs: int) -> None:
    """Check a storage before any work.

    Raises
    ------
    PolicyError
        If it is a kind of database that is not supported, or SQLite with several
        workers.
    """
    scheme, is_url, _ = storage.partition("://")
    if not is_url:
        return
    kind = scheme.partition("+")[0]
    if kind not in ("postgresql", "sqlite"):
        raise PolicyError(
            f"--storage {scheme}://...: allowed are a file's name (Optuna's journal), "
            "postgresql://..., or sqlite:///... with --jobs 1"
        )
    if kind == "sqlite" and jobs > 1:
        raise PolicyError(
            "--storage sqlite:///...: SQLite locks its whole file for each write and "
            "is not for parallel searches; use a journal file (the default), "
            "PostgreSQL, or --jobs 1"
        )


@contextlib.contextmanager
def open_study(
    storage: str | None, name: str, objectives: Sequence[Objective]
) -> Iterator[tuple[Study, BaseStorage]]:
    """Open a study and what keeps it, or make them.

    Parameters
    ----------
    storage : str or None
        A journal's file name, a database's URL, or None for memory.
    name : str
        Of the study.
    objectives : sequence of Objective
        What its values are.

    Yields
    ------
    Study, BaseStorage
        No other process has the same journal open.

    Raises
    ------
    PolicyError
        If the storage cannot be opened or another process uses it.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with contextlib.ExitStack() as stack:
        try:
            if storage is None:
                kept: BaseStorage = optuna.storages.InMemoryStorage()
            elif "://" in storage:
                kept = stack.enter_context(_database(storage))
            else:
                kept = stack.enter_context(_journal(Path(storage)))
            study = optuna.create_study(
                storage=kept,
                study_name=name,
                directions=[each.direction for each in objectives],
                load_if_exists=True,
            )
        except PolicyError:
            raise
        except Exception as error:
            # Drivers of databases raise what they like.
            raise PolicyError(
                f"--storage {shown(storage)}: {_first_line(error)}"
            ) from error
        yield study, kept


@contextlib.contextmanager
def _journal(path: Path) -> Iterator[BaseStorage]:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    with _locked(path):
        _cut_torn_end(path)
        # The lock of a process that was killed; nobody else can hold it now.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}.lock")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept = JournalStorage(JournalFileBackend(str(path)))
        yield kept


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other searches off a file, which is made if it is missing."""
    try:
        file = path.open("ab+")
    except OSError as error:
        raise PolicyError(f"--storage {path}: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _taken(str(path)) from None
        yield


@contextlib.contextmanager
def _database(url: str) -> Iterator[BaseStorage]:
    """Open a database that no other search uses.

    The lock is the process's connection's: it goes when the process does.
    """
    import optuna
    import sqlalchemy

    where = sqlalchemy.make_url(url)
    if where.drivername == "postgresql":
        # Which driver that means depends on the version of SQLAlchemy.
        where = where.set(drivername="postgresql+psycopg")
    with contextlib.ExitStack() as stack:
        if where.get_backend_name() == "sqlite":
            if where.database:
                stack.enter_context(_locked(Path(where.database)))
        else:
            engine = sqlalchemy.create_engine(where)
            stack.callback(engine.dispose)
            connection = stack.enter_context(engine.connect())
            asked = sqlalchemy.text("select pg_try_advisory_lock(:lock)")
            if not connection.execute(asked, {"lock": _LOCK}).scalar():
                raise _taken(shown(url))
        kept = optuna.storages.RDBStorage(where.render_as_string(hide_password=False))
        stack.callback(kept.engine.dispose)
        stack.callback(kept.remove_session)
        yield kept


def _taken(storage: str) -> PolicyError:
    return PolicyError(
        f"--storage {storage}: another search uses it; give this one a storage of its "
        "own"
    )


def _cut_torn_end(path: Path) -> None:
    """Remove a last line of a journal that was not written to its end.

    The next line would be appended to it, and nothing behind it could be read.

    Raises
    ------
    PolicyError
        If the file is no journal; it is left as it is.
    """
    with path.open("rb+") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        for number, line in enumerate(content[:whole].splitlines(), 1):
            if not _is_of_a_journal(line):
                raise PolicyError(
                    f"--storage {path}: line {number} is none of a journal of Optuna's"
                )
        torn = content[whole:]
        if torn and not (torn.startswith(_BEGINNING) or _BEGINNING.startswith(torn)):
            raise PolicyError(f"--storage {path}: not a journal of Optuna's")
        if torn:
            file.truncate(whole)


def _is_of_a_journal(line: bytes) -> bool:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(told, dict) and isinstance(told.get("op_code"), int)


def shown(storage: str | None) -> str:
    """Return a storage as it may be shown: a URL without user and password."""
    scheme, is_url, rest = (storage or "memory").partition("://")
    return f"{scheme}{is_url}{rest.rpartition('@')[2]}"


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0]

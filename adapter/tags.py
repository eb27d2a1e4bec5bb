"""What a client says of its request: ``kv_transfer_params["hotset"]``.

| tag | what it is |
|---|---|
| ``source_type`` | system, user, assistant or document |
| ``priority`` | a number from 0 on, 1 where it is not given; soft: it pins nothing |
| ``session`` | a name of up to 64 characters |
| ``ttl_s`` | seconds for which the session is expected to be of use |
| ``end_session`` | true: nothing more comes; what this request stores may go first |
| ``tenant`` | a name of up to 64 characters |

``tenant`` and ``end_session`` count only where the operator trusts the tags. The key
``"evoke"`` with the fields of evoke-vllm (``source_type``, ``priority``,
``evoke_session``) is read where ``"hotset"`` does not give the same.

Tags never break a request: what is wrong is counted by tag, said once for each tag, and
as good as not given. Clients name as much as they like, so nothing is kept of sessions,
and the names of tenants that are kept are bounded; the rest are ``"other"``.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hotset.policies.request import SOURCE_TYPES

_LOG = logging.getLogger(__name__)

OTHER = "other"
MAX_TENANTS = 64
MAX_NAME = 64  # characters
MIN_PRIORITY, MAX_PRIORITY, PRIORITY_STEPS = 0.125, 8.0, 8  # steps to 1
MIN_TTL_S, MAX_TTL_S = 1.0, 7 * 86_400.0

_NAMES = ("source_type", "priority", "session", "ttl_s", "end_session", "tenant")
# What is counted beside the tags: a value that is no object, and unknown keys.
FIELDS = (*_NAMES, "hotset", "evoke", "unknown key")


@dataclass(frozen=True)
class Tags:
    """A request's tags, all of them valid.

    Parameters
    ----------
    source_type : int
        Index into `hotset.policies.request.SOURCE_TYPES`, -1 where unknown.
    priority : float
        `MIN_PRIORITY` to `MAX_PRIORITY` in steps of 1 / `PRIORITY_STEPS`; the lowest
        one for a request that ends its session.
    session, tenant : str or None
        None where not given.
    ttl_s : float or None
        `MIN_TTL_S` to `MAX_TTL_S`.
    end_session : bool
        Whether the session is over.
    """

    source_type: int = -1
    priority: float = 1.0
    session: str | None = None
    ttl_s: float | None = None
    end_session: bool = False
    tenant: str | None = None


class TagReader:
    """Reads tags, and counts what is wrong with them.

    Parameters
    ----------
    trusted : bool
        Whether ``tenant`` and ``end_session`` count.
    """

    def __init__(self, trusted: bool = False) -> None:
        self.invalid: Counter[str] = Counter()
        self._trusted = trusted
        self._tenants: set[str] = set()

    def read(self, kv_transfer_params: Any) -> Tags:
        """Return the tags of a request; never raises."""
        if not kv_transfer_params:
            return Tags()
        try:
            return self._read(kv_transfer_params)
        except Exception as error:
            self._refuse("hotset", f'"hotset" cannot be read: {error!r}')
            return Tags()

    def _read(self, params: Mapping[str, Any]) -> Tags:
        given = self._object(params, "hotset")
        unknown = sum(key not in _NAMES for key in given)
        if unknown:
            self._refuse("unknown key", f"not one of {', '.join(_NAMES)}")
        evoke = self._object(params, "evoke")
        if not given and not evoke:
            return Tags()
        priority = self._take(given, "priority", _priority)
        if priority is None:
            priority = self._take(evoke, "priority", _evoke_priority)
        source = self._take(given, "source_type", _source_type)
        if source is None:
            source = self._take(evoke, "source_type", _source_type)
        session = self._take(given, "session", _name)
        if session is None:
            session = self._take(evoke, "evoke_session", _evoke_name, "session")
        ttl_s = self._take(given, "ttl_s", _ttl_s)
        ends = self._take(given, "end_session", _flag) if self._trusted else None
        tenant = self._take(given, "tenant", _name) if self._trusted else None
        if ends:
            priority = MIN_PRIORITY
        return Tags(
            source_type=-1 if source is None else source,
            priority=1.0 if priority is None else priority,
            session=session,
            ttl_s=ttl_s,
            end_session=bool(ends),
            tenant=None if tenant is None else self._tenant(tenant),
        )

    def _object(self, params: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        found = params.get(key)
        if found is None:
            return {}
        if not isinstance(found, Mapping):
            self._refuse(key, f'"{key}" is {_shown(found)}: an object is needed')
            return {}
        return found

    def _take(
        self,
        given: Mapping[str, Any],
        key: str,
        convert: Callable[[Any], Any],
        counted_as: str | None = None,
    ) -> Any:
        value = given.get(key)
        if value is None:
            return None
        try:
            return convert(value)
        except _Wrong as wrong:
            self._refuse(counted_as or key, f"{key} is {_shown(value)}: {wrong}")
            return None

    def _tenant(self, name: str) -> str:
        if name not in self._tenants:
            if len(self._tenants) >= MAX_TENANTS:
                return OTHER
            self._tenants.add(name)
        return name

    def _refuse(self, field: str, message: str) -> None:
        self.invalid[field] += 1
        if self.invalid[field] == 1:
            _LOG.warning(
                "hotset: a request tag is not used, further ones are only counted: %s",
                message,
            )


class _Wrong(ValueError):
    """A value that a tag cannot have; says what is allowed."""


def _shown(value: Any) -> str:
    """Return a value's beginning; what a client sent can be long, or break repr."""
    if isinstance(value, (str, int, float, bool)):
        try:
            return repr(value[:40] if isinstance(value, str) else value)[:60]
        except ValueError:  # a whole number of thousands of digits
            return "a very large number"
    return f"of type {type(value).__name__}"


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Wrong("a number is needed")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0.0:
        raise _Wrong("a finite number from 0 on is needed")
    return number


def _priority(value: Any) -> float:
    number = min(max(_number(value), MIN_PRIORITY), MAX_PRIORITY)
    return round(number * PRIORITY_STEPS) / PRIORITY_STEPS


def _evoke_priority(value: Any) -> float:
    """Read a priority as evoke-vllm does, which takes ``"1.5"`` as well."""
    if isinstance(value, str):
        try:
            value = float(value[:40])
        except ValueError:
            raise _Wrong("a number is needed") from None
    return _priority(value)


def _source_type(value: Any) -> int:
    if not isinstance(value, str) or value not in SOURCE_TYPES:
        raise _Wrong(f"allowed are {', '.join(SOURCE_TYPES)}")
    return SOURCE_TYPES.index(value)


def _name(value: Any) -> str:
    # Not printable are line ends and half characters, which no file could take.
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME:
        raise _Wrong(f"a text of 1 to {MAX_NAME} characters is needed")
    if not value.isprintable():
        raise _Wrong("printable characters are needed")
    return value


def _evoke_name(value: Any) -> str:
    """Read a session as evoke-vllm does, which takes numbers as well."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**60:
        value = str(value)
    return _name(value)


def _ttl_s(value: Any) -> float:
    number = _number(value)
    if number == 0.0:
        raise _Wrong("seconds above 0 are needed")
    return min(max(number, MIN_TTL_S), MAX_TTL_S)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong("true or false is needed")
    return value

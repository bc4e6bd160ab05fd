"""The room for jobs and files in the store (`store.max_mb`), shared by the keys as memory is.

Half of it is divided among the keys, and the other half is for whoever needs it first: a key that holds less
than its part is not refused because of the others. It is asked for in the transaction that takes it.
"""

from __future__ import annotations

from dragoman.core.model import Failure
from dragoman.gateway.config import Config
from dragoman.gateway.conversations.store import Statement
from dragoman.serving.conversations import ConversationError

# A row where the key ($1) has room for $2 bytes: in its part ($3), or in what is common ($4)
_HAS_ROOM = """with held as (
        select owner, sum(size) as size from (
            select owner, size from dragoman_files where batch = ''
            union all
            select owner, length(body) + length(reply) from dragoman_jobs) as everything
        group by owner),
    beyond as (
        select coalesce(sum(size - cast($3 as bigint)), 0) as others from held
        where owner <> $1 and size > cast($3 as bigint)),
    own as (select coalesce(max(size), 0) + cast($2 as bigint) as size from held where owner = $1)
    select 1 from own, beyond
    where own.size <= cast($3 as bigint) or own.size - cast($3 as bigint) + others <= cast($4 as bigint)"""


class StoreSpace:
    def __init__(self, config: Config) -> None:
        self._part = self._common = 0
        self.configure(config)

    def configure(self, config: Config) -> None:
        limit, keys = config.retention.bytes, len(config.keys)
        self._part = limit // 2 // keys if keys > 1 else 0
        self._common = limit - self._part * keys

    def claim(self, owner: str, size: int) -> Statement:
        """Gives no row where there is no room, which rolls its transaction back."""
        return Statement(_HAS_ROOM, (owner, size, self._part, self._common), required=True, alone=True)


def no_room(size: int) -> ConversationError:
    problem = (
        f"files, batches and background responses have no room for {size} more bytes in the store "
        "(store.max_mb): delete some, or wait until they expire"
    )
    return ConversationError(Failure("too_large", problem, 413))

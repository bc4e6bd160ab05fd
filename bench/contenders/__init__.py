"""Who is measured.

Peers appear twice: with the JSON module that they use themselves, and with ours, so that the rest of the
difference is translation alone.
"""

from bench.contenders import floor, litellm, ours, rosetta
from bench.contenders.base import Contender, Pair

FLOOR = floor.FLOOR
DRAGOMAN = ours.DRAGOMAN
LITELLM = litellm.LITELLM
LITELLM_WITH_MSGSPEC = litellm.WITH_MSGSPEC
CONTENDERS: tuple[Contender, ...] = (
    *(FLOOR, DRAGOMAN),
    *(LITELLM, LITELLM_WITH_MSGSPEC),
    *(rosetta.ROSETTA, rosetta.WITH_MSGSPEC),
)

__all__ = ["CONTENDERS", "DRAGOMAN", "FLOOR", "LITELLM", "LITELLM_WITH_MSGSPEC", "Contender", "Pair"]

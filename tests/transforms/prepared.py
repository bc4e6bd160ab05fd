"""A request as an upstream takes it, by the folds and functions that a pipeline puts in a row."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core.fold import end, report
from dragoman.core.model import Request
from dragoman.transforms.identify import Identify, IdentifyRun
from dragoman.transforms.ledger import Ledger, fit_head, prepare_tools
from dragoman.transforms.pairing import Pair


def prepare(ledger: Ledger, request: Request) -> Request:
    identify = Identify(ledger.client, ledger.upstream, ledger.origin, ledger.own)
    runs = [identify.begin(), Pair(ledger.upstream, whole=True).begin()]
    messages = end(runs, request.messages)
    report(runs, ledger.losses)
    identified = runs[0]
    assert isinstance(identified, IdentifyRun)
    names = *identified.used, *(request.tool_choice.names if request.tool_choice else ())
    field = ledger.client.schema_field
    tools = prepare_tools(request.tools, ledger.losses, ledger.upstream, names, field)
    ledger.losses.extend(tools.fitted)
    head = fit_head(request, tools)
    ledger.adopt(head, tools, identified)
    return replace(head, messages=tuple(messages))

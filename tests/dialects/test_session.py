"""Only what is new goes to an upstream that keeps the conversation."""

from __future__ import annotations

from msgspec.structs import replace

from dialects.replies import tool
from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Text, ToolCall, ToolResult
from dragoman.dialects import dialect
from dragoman.dialects.session import Session, continue_session, replied

READ = tool("read", ["filePath"], "Read a file", filePath="string")
ASKED = Message("user", (Text("What's in the package.json file?"),))
CALLED = Message("assistant", (Text("I'll read it."), ToolCall("call_1", "read", '{"filePath":"/p"}')))
ANSWERED = Message("user", (ToolResult("call_1", content=(Text('{"a":1}'),)),))


def rendered(*messages: Message) -> Request:
    return dialect("roo-xml").render(Request("m", messages, tools=(READ,)), Losses())


def begun() -> Session:
    _, session = continue_session(rendered(ASKED), None, "uuid-123")
    return replied(session, "reply-1")


def test_a_conversation_begins_with_everything() -> None:
    request = rendered(ASKED)
    sent, session = continue_session(request, None, "uuid-123")
    assert sent == request
    assert (session.chat_id, session.parent_id) == ("uuid-123", None)


def test_it_goes_on_with_what_is_new() -> None:
    sent, session = continue_session(rendered(ASKED, CALLED, ANSWERED), begun())
    assert (session.chat_id, session.parent_id) == ("uuid-123", "reply-1")
    assert sent.messages == (Message("user", (Text('Tool Result from read:\n{"a":1}'),)),)
    assert sent.system == ()


def test_and_on() -> None:
    _, session = continue_session(rendered(ASKED, CALLED, ANSWERED), begun())
    thanks = Message("user", (Text("Thanks."),))
    done = Message("assistant", (Text("It has a."),))
    sent, _ = continue_session(rendered(ASKED, CALLED, ANSWERED, done, thanks), replied(session, "reply-2"))
    assert sent.messages == (thanks,)


def test_an_edited_history_begins_anew() -> None:
    edited = rendered(Message("user", (Text("Something else?"),)), CALLED, ANSWERED)
    sent, session = continue_session(edited, begun(), "uuid-456")
    assert (sent, session.chat_id, session.parent_id) == (edited, "uuid-456", None)


def test_another_system_text_begins_anew() -> None:
    request = replace(rendered(ASKED, CALLED, ANSWERED), system=(Text("Be brief."),))
    assert continue_session(request, begun(), "uuid-456")[0] == request


def test_a_repeated_request_begins_anew() -> None:
    request = rendered(ASKED)
    assert continue_session(request, begun(), "uuid-456")[0] == request

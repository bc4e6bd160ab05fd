"""The stable codes of losses, with what each one means.

A code is a topic and a kind: `tool.strict.dropped`. Programs match on codes, so a code is never renamed.
docs/reference/losses.md is generated from this table; a test compares it with the reports in the source.

Severity `material`: the model or the agent will behave differently; `minor`: a detail that somebody may miss;
`cosmetic`: another spelling of the same thing.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, get_args

from msgspec import Struct

from dragoman.core.model import HostedKind

Severity = Literal["material", "minor", "cosmetic"]


class LossCode(Struct, frozen=True):
    """`meaning` explains the loss to the reader of a log; `advice` says what you can do about it."""

    severity: Severity
    meaning: str
    advice: str = ""


_material, _minor, _cosmetic = (partial(LossCode, severity) for severity in get_args(Severity))
CODES: dict[str, LossCode] = {
    # Declarations of tools
    "tool.schema.changed": _minor(
        "The target's schemas lack a keyword. The model reads the constraint in a description instead.",
        "Arguments are still checked against the schema that the client declared.",
    ),
    "tool.schema.dropped": _minor(
        "A part of the schema that restricts nothing was left out.",
        "You need to do nothing: what was left out allowed everything.",
    ),
    "tool.schema.annotation.dropped": _cosmetic(
        "A keyword that constrains nothing, such as $schema or $comment, was left out."
    ),
    "tool.strict.changed": _material(
        "Strict mode is off, because it cannot express all that your schema allows.",
        "Close the schema (additionalProperties: false, a type for every value) to get strict mode back.",
    ),
    "tool.custom.changed": _minor("A freeform tool was declared as a function with one string."),
    "tool.count.dropped": _material(
        "You declare more tools than the server takes. This one was left out.",
        "Declare fewer tools. `max_tools` of the model's profile sets the number.",
    ),
    "tool.duplicate.dropped": _material(
        "Two tools have this name. The second one was left out.", "Declare each name once."
    ),
    "hosted.function.changed": _minor(
        "The target does not know this kind of tool. It was declared as a function, and your client runs it."
    ),
    # Results
    "result.orphan.changed": _minor(
        "A tool result has no call in the conversation. It was sent as text.",
        "Send each result after the message with its call.",
    ),
    "result.orphan.dropped": _minor("A call has two results. The second one was left out."),
    "result.missing.invented": _minor(
        "A call has no result in the conversation. A placeholder was sent.",
        "Send a result for every call before the next message.",
    ),
    # Media
    "media.image.changed": _material(
        "The model reads text only. A note was sent instead of the image.",
        "Choose a model that takes images, or set images = true for this one if it does.",
    ),
    "media.type.changed": _cosmetic(
        "The media type contradicts the first bytes of the file, so it was corrected."
    ),
    "media.summary.changed": _material(
        'A binary result was summarised as text, because of images="summary".',
        'Use images="send", or a model that takes images.',
    ),
    # Text dialects
    "dialect.call.changed": _minor(
        "A call in the text of a reply was broken or repaired, or a past call does not parse back the same.",
        "Look at the reply in the recording. A larger model, or another dialect, breaks fewer calls.",
    ),
    "dialect.call.dropped": _material(
        "The dialect allows one call in a reply. Further ones were left out.",
        "Your agent sees only the first call. The model makes the others in its next reply.",
    ),
    "reasoning.call.dropped": _minor(
        "A call is part of the reasoning, before text or in a reply that was cut. It does not run."
    ),
    "call.recovered.changed": _minor("The model wrote a call as text. Your client gets it as a call."),
    "call.recovered.dropped": _cosmetic(
        "The model made a call and wrote it as text too. Your client gets it once."
    ),
    # What a request carries beside the neutral model
    "field.option.changed": _minor("A field of `provider_options` took the place of one of the request."),
    "field.unknown.dropped": _minor(
        "If there is such a field, only your client's protocol has it.",
        "Check its spelling. If you rely on it, choose a provider of your client's own protocol.",
    ),
    # Content
    "part.unknown.dropped": _material(
        "Only its own protocol understands this part.",
        "Choose a provider of your client's own protocol for this conversation.",
    ),
    "part.unknown.changed": _minor("Only its own protocol understands this part. It was sent as text."),
    "part.place.dropped": _material(
        "The target does not take this part at this place.", "Send it in a message of the user."
    ),
    "event.unknown.dropped": _minor("Only its own protocol understands this stream event."),
    "text.blank.dropped": _cosmetic("The target refuses a text of white space alone."),
    "text.blank.changed": _cosmetic("The target refuses white space at the end. It was cut off."),
    "citation.dropped": _minor("The target's protocol cannot cite this source."),
    "citation.detail.dropped": _cosmetic(
        "A citation keeps its source, but not the words that it quotes or their place.",
        "If you show them, choose a provider of your client's own protocol.",
    ),
    "text.join.changed": _cosmetic("Two texts were joined, because the target has one field for both."),
    "media.name.dropped": _cosmetic("The target has no field for the name of a file."),
    "media.type.invented": _minor("The target requires a media type, so one was guessed."),
    "media.name.changed": _cosmetic("A file name was written in the characters that the target takes."),
    "media.image.dropped": _material(
        "The target does not take this image.",
        "Choose a model that takes images, or send the image in a message of the user.",
    ),
    "media.document.dropped": _material(
        "The target does not take this document.", "Choose a model that takes documents, or send its text."
    ),
    "media.audio.dropped": _material(
        "The target does not take this audio.", "Choose a model that takes audio, or send a transcript."
    ),
    "media.video.dropped": _material(
        "The target does not take this video.", "Choose a model that takes video, or send single images."
    ),
    "media.detail.dropped": _minor("The target has no setting for how closely the model looks at an image."),
    "media.document.changed": _minor("The document was sent as text or as its address."),
    "media.name.invented": _cosmetic("The target requires a file name, so one was made up."),
    "stop.reason.changed": _material(
        "The target has no word for the reason why the reply ended.",
        "Read the reply's text. Your agent gets the nearest reason that its protocol has.",
    ),
    "stop.sequence.dropped": _cosmetic(
        "The target does not say which of your stop sequences ended the reply."
    ),
    "usage.detail.dropped": _cosmetic("The target's protocol does not report this count."),
    "response.choices.dropped": _material(
        "The reply has several answers. Only the first one is passed on.",
        "Ask once for each answer (n = 1), or use a provider that gives several.",
    ),
    "cache.breakpoint.changed": _cosmetic("A mark for a prompt cache expires sooner than you asked for."),
    "cache.breakpoint.dropped": _cosmetic("The target takes no mark for a prompt cache at this place."),
    # Messages
    "message.order.dropped": _minor("The target's order has no place for this part."),
    "message.order.changed": _minor("A message was moved, as the target requires."),
    "message.role.changed": _minor("A message was sent in another role, which the target takes here."),
    "message.filler.invented": _minor(
        "The target requires a message that is missing here. A placeholder was sent."
    ),
    "message.prefill.changed": _minor(
        "The conversation ends with the assistant. The model answers it and does not continue it.",
        "Ask for the form of the answer in a message of the user instead.",
    ),
    "message.refusal.changed": _minor("A refusal was sent as text."),
    "system.attribution.dropped": _cosmetic(
        "Claude Code writes a billing line for Anthropic. Other providers do not get it."
    ),
    # Calls and results
    "call.arguments.changed": _material(
        "The target does not take the arguments as they are.",
        "Look at the schema: the target takes only what it declares.",
    ),
    "call.incomplete.dropped": _material(
        "The reply ended inside a call. It must not run.",
        "Allow more tokens (max_tokens), so that the call can end.",
    ),
    "call.name.invented": _minor(
        "A result has no call in the conversation, so the name of its function was made up."
    ),
    "result.media.changed": _minor("Media of a tool result were sent beside it."),
    "result.text.invented": _minor("The target requires text in a result. A placeholder was sent."),
    "result.place.dropped": _material(
        "The target takes no tool result at this place.",
        "Send results directly after the message with their calls.",
    ),
    "call.name.changed": _minor(
        "The model named a tool almost right. Your client gets the name that it declared."
    ),
    "call.id.dropped": _minor(
        "The client changed a call id that carried opaque state, so the state is gone.",
        "Use a client that echoes ids unchanged.",
    ),
    "call.id.invented": _cosmetic("The upstream gave a call no id, so one was made."),
    "call.empty.changed": _cosmetic("The arguments are an empty array. It was read as an empty object."),
    "call.repaired.changed": _minor(
        "Arguments had other types than the schema declares. They were converted without loss."
    ),
    "call.name.dropped": _material(
        "A call has no name, so it cannot run.",
        "You can do nothing here. The model's reply was broken. Another model breaks fewer.",
    ),
    "call.arguments.dropped": _material(
        "This kind of call cannot hold arguments of that form.",
        "Declare the tool with the kind of arguments that the model writes.",
    ),
    "call.parallel.dropped": _material(
        "Your client takes one call at a time. Further calls of the reply were left out.",
        "The model makes the other calls in its next reply.",
    ),
    "result.error.changed": _cosmetic(
        "The target has no field for the failure of a tool. The text of the result says it."
    ),
    "result.error.dropped": _minor(
        "The target cannot say that a tool failed. The text of its result is there."
    ),
    "result.media.dropped": _material(
        "The target takes only text in a result. Its media were left out.",
        "Return text from the tool, or send the media in a message of the user.",
    ),
    # Tools
    "tool.declaration.invented": _minor(
        "A tool is used in the history but not declared. A declaration was added."
    ),
    "tool.choice.dropped": _material(
        "The target cannot express your tool choice.", "Say in the prompt which tool to use."
    ),
    "tool.choice.changed": _material(
        "The target can only approximate your tool choice.", "Say in the prompt which tool to use."
    ),
    "tool.deferred.changed": _minor(
        "The target cannot load tools later. A deferred tool was declared at another time."
    ),
    "tool.namespace.dropped": _minor("The target has no namespaces of tools."),
    "hosted.emulated": _minor(
        "The upstream lacks this hosted tool. The model called it as a function, and the gateway ran it.",
        "You need to do nothing. A target that runs the tool itself gets it as it is.",
    ),
    "hosted.result.changed": _minor(
        "The client did not send the result of a hosted tool back. The tool was called again.",
        "Use a client that echoes `reasoning_details`, or a store that all workers share.",
    ),
    "hosted.result.dropped": _material(
        "The client did not send the result of a hosted tool back, and the tool could not be called again.",
        "Use a client that echoes `reasoning_details`, or a store that all workers share.",
    ),
    "hosted.computer.changed": _material(
        "The target's computer tool has other actions.", "Check that the agent knows the target's actions."
    ),
    "hosted.setting.dropped": _material(
        "The target's hosted tool lacks this setting.",
        "Choose a provider that has it. `dragoman plan` compares them.",
    ),
    "hosted.choice.changed": _minor(
        "Your tool choice does not allow this hosted tool. The target does not choose among hosted tools, so "
        "it was withheld."
    ),
    "hosted.domains.changed": _cosmetic(
        "The blocked domains lie outside the allowed ones, so they were left out."
    ),
    "hosted.tool_search.changed": _minor(
        "The target cannot search for tools. What the search found is declared instead."
    ),
    "hosted.web_search.invented": _minor("The reply cites sources, so a search was added to it."),
    # Reasoning
    "reasoning.signature.invented": _minor("A signature is missing. A placeholder was sent."),
    "reasoning.signature.dropped": _minor(
        "Another provider signed this reasoning, and only that one can read it.",
        "You need to do nothing. The conversation goes on without the other provider's reasoning.",
    ),
    "transcript.order.dropped": _minor(
        "You asked to edit or to summarise the conversation. A transcript is never edited."
    ),
    "reasoning.history.dropped": _minor("The target does not take earlier reasoning back."),
    "reasoning.history.invented": _minor(
        "The target requires earlier reasoning that is missing. A placeholder was sent."
    ),
    # Replies
    "response.logprobs.dropped": _minor("The target does not report log probabilities of tokens."),
    "stream.mismatch.changed": _minor("The end of a stream contradicts what was streamed before."),
    # Compaction
    "compaction.emulated": _minor(
        "The upstream has no compaction. The model wrote a summary, which any model can continue.",
        "You need to do nothing. A provider with compaction of its own may keep more.",
    ),
    "compaction.dropped": _material(
        "You asked for compaction, and this translation runs without a gateway.",
        "Send the request through the gateway, or compact in your client.",
    ),
    "context.edit.emulated": _minor(
        "The upstream has no context editing. Old results or thinking were cleared before the request."
    ),
    "prompt.dropped": _material(
        "Only another server stores this prompt template.", "Send the text of the prompt."
    ),
    # Conversations that a server stores
    "store.dropped": _material(
        "Only another server stores the earlier turns.", "Send the whole conversation."
    ),
}
CODES.update(
    {
        f"hosted.{kind}.dropped": _material(
            f"The target has no hosted tool {kind}.",
            "Choose a provider that has it, or give your agent a tool of its own for it.",
        )
        for kind in get_args(HostedKind)
    }
)
# Settings that change what the model writes are material; the others are minor
_MATERIAL = frozenset({"max_tokens", "stop", "n", "output", "effort", "budget", "store"})
_SETTINGS = (
    *("max_tokens", "temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed", "stop"),
    *("n", "output", "effort", "budget", "show_reasoning", "verbosity", "user", "metadata", "service_tier"),
    *("logprobs", "top_logprobs", "store", "cache_key", "parallel", "include"),
)
CODES.update(
    {
        f"setting.{name}.{kind}": LossCode(
            "material" if name in _MATERIAL else "minor", meaning.format(name), advice
        )
        for name in _SETTINGS
        for kind, meaning, advice in (
            (
                "dropped",
                "The target has no setting {}.",
                "Leave it out, or choose a provider that has it. `dragoman plan` compares them.",
            ),
            (
                "changed",
                "The target takes other values for the setting {}.",
                "Send a value that the target takes.",
            ),
            (
                "invented",
                "The target requires the setting {}, so a value was chosen.",
                "Send it to choose the value yourself.",
            ),
        )
    }
)

# Nobody is harmed unless the reply is longer, and then its stop reason says so
CODES["setting.max_tokens.invented"] = _minor(
    "The target requires the setting max_tokens, so a high value was chosen. It ends only a longer reply.",
    "You need to do nothing. Send it to choose the value yourself.",
)
CODES["setting.configured.changed"] = _minor(
    "The gateway's configuration decides this setting (`set`, `default` or `extra`).",
    "Ask the operator of the gateway, or ask for a model that leaves it to you.",
)
CODES["setting.output.emulated"] = _minor(
    "This model has no structured output here. A tool takes the answer, or a prompt asks for it.",
    "The answer is validated all the same. Choose the way with output_mode.",
)


def severity_of(code: str) -> Severity:
    known = CODES.get(code)
    return known.severity if known else "minor"

"""The stable codes of losses, with what each one means.

A code is a topic and a kind: `tool.strict.dropped`. Programs match on codes, so a code is never renamed.
docs/reference/losses.md is generated from this table; a test compares it with the reports in the source.

Severity `material`: the model or the agent will behave differently; `minor`: a detail that somebody may miss;
`cosmetic`: another spelling of the same thing.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Severity = Literal["material", "minor", "cosmetic"]


class LossCode(Struct, frozen=True):
    """`meaning` explains the loss to the reader of a log; `advice` says what can be done about it."""

    severity: Severity
    meaning: str
    advice: str = ""


CODES: dict[str, LossCode] = {
    # Declarations of tools
    "tool.schema.changed": LossCode(
        "minor",
        "The target does not take a keyword of the schema; the model reads the constraint in a description.",
        "Arguments are still checked against the schema that the client declared.",
    ),
    "tool.schema.dropped": LossCode(
        "minor",
        "A part of the schema that cannot mean anything was left out.",
        "Nothing: what was left out allowed everything.",
    ),
    "tool.schema.annotation.dropped": LossCode(
        "cosmetic", "A keyword that constrains nothing, such as $schema or $comment, was left out."
    ),
    "tool.strict.changed": LossCode(
        "material",
        "Strict mode was left off: it cannot express all that the schema allows.",
        "Close the schema (additionalProperties: false, a type for every value) to get strict mode back.",
    ),
    "tool.custom.changed": LossCode("minor", "A freeform tool, declared as a function with one string."),
    "tool.count.dropped": LossCode(
        "material",
        "A tool beyond the number that the server takes.",
        "Declare fewer tools; max_tools of the model's profile sets the number.",
    ),
    "tool.duplicate.dropped": LossCode(
        "material",
        "A second tool of the same name.",
        "Declare each name once.",
    ),
    "hosted.function.changed": LossCode(
        "minor", "A tool that runs at the client, declared as a function for a target that does not know it."
    ),
    # Results
    "result.orphan.changed": LossCode(
        "minor",
        "A tool result without its call, sent as text.",
        "Send each result after the message with its call.",
    ),
    "result.orphan.dropped": LossCode("minor", "A second result for the same call."),
    "result.missing.invented": LossCode(
        "minor",
        "A result for a call that has none in the conversation.",
        "Send a result for every call before the next message.",
    ),
    # Media
    "media.image.changed": LossCode(
        "material",
        "An image for a model that reads text only; a note stands in its place.",
        "Choose a model that takes images, or set images = true for this one if it does.",
    ),
    "media.type.changed": LossCode("cosmetic", "A media type that contradicts the first bytes of the file."),
    "media.summary.changed": LossCode(
        "material",
        'A binary result, summarised as text because of images="summary".',
        'Use images="send", or a model that takes images.',
    ),
    # Text dialects
    "dialect.call.changed": LossCode(
        "minor",
        "A call in the text of a reply was broken or repaired, or a past call does not parse back the same.",
        "Look at the reply in the recording; a larger model, or another dialect, breaks fewer calls.",
    ),
    "dialect.call.dropped": LossCode(
        "material",
        "The dialect allows one call in a reply; further ones were left out.",
        "The agent sees only the first call; the model makes the others in its next reply.",
    ),
    "reasoning.call.dropped": LossCode(
        "minor", "A call that stands in the reasoning of a reply without any other call; it does not run."
    ),
    "call.recovered.changed": LossCode("minor", "A call that the model wrote as text became a call."),
    "call.recovered.dropped": LossCode("cosmetic", "A call was written as text and made natively as well."),
    # What a request carries beside the neutral model
    "field.option.changed": LossCode("minor", "A field of provider_options, in place of one of the request."),
    "field.unknown.dropped": LossCode(
        "minor",
        "A field that only the client's own protocol defines.",
        "Nothing, unless you rely on it; then choose a provider of the client's own protocol.",
    ),
    # Content
    "part.unknown.dropped": LossCode(
        "material",
        "A part that only its own protocol understands.",
        "Choose a provider of the client's own protocol for this conversation.",
    ),
    "part.unknown.changed": LossCode("minor", "A part that only its own protocol understands, sent as text."),
    "part.place.dropped": LossCode(
        "material",
        "A part that the target does not take at this place.",
        "Send it in a message of the user.",
    ),
    "event.unknown.dropped": LossCode("minor", "A stream event that only its own protocol understands."),
    "text.blank.dropped": LossCode("cosmetic", "A text of white space, which the target refuses."),
    "text.blank.changed": LossCode("cosmetic", "White space at the end, which the target refuses."),
    "citation.dropped": LossCode("minor", "A source that the target cannot cite."),
    "text.join.changed": LossCode("cosmetic", "Two texts, joined: the target has one field for both."),
    "media.name.dropped": LossCode("cosmetic", "The name of a file."),
    "media.type.invented": LossCode("minor", "A media type, guessed because the target requires one."),
    "media.image.dropped": LossCode(
        "material",
        "An image that the target does not take.",
        "Choose a model that takes images, or send the image in a message of the user.",
    ),
    "media.document.dropped": LossCode(
        "material",
        "A document that the target does not take.",
        "Choose a model that takes documents, or send its text.",
    ),
    "media.audio.dropped": LossCode(
        "material",
        "Audio that the target does not take.",
        "Choose a model that takes audio, or send a transcript.",
    ),
    "media.video.dropped": LossCode(
        "material",
        "A video that the target does not take.",
        "Choose a model that takes video, or send single images.",
    ),
    "media.detail.dropped": LossCode("minor", "How closely the model looks at an image."),
    "media.document.changed": LossCode("minor", "A document, sent as text or as its address."),
    "media.name.invented": LossCode("cosmetic", "A file name that the target demands."),
    "stop.reason.changed": LossCode(
        "material",
        "A reason to stop that the target has no word for.",
        "Read the reply's text: the agent gets the nearest reason that its protocol has.",
    ),
    "usage.detail.dropped": LossCode("cosmetic", "A count that the target does not report."),
    "response.choices.dropped": LossCode(
        "material",
        "Further answers; only the first one is passed on.",
        "Ask once for each answer (n = 1), or use a provider that gives several.",
    ),
    "cache.breakpoint.dropped": LossCode(
        "cosmetic", "A mark for a prompt cache, at a place where the target takes none."
    ),
    # Messages
    "message.order.dropped": LossCode("minor", "A part for which the target's order has no place."),
    "message.order.changed": LossCode("minor", "A message stands at another place, as the target demands."),
    "message.role.changed": LossCode("minor", "A message, sent in a role that the target takes here."),
    "message.filler.invented": LossCode("minor", "A turn that the target demands and nobody wrote."),
    "message.prefill.changed": LossCode(
        "minor",
        "A last message of the assistant; it is not continued.",
        "Ask for the form of the answer in a message of the user instead.",
    ),
    "message.refusal.changed": LossCode("minor", "A refusal, sent as text."),
    "system.attribution.dropped": LossCode(
        "cosmetic", "A billing line that Claude Code writes for Anthropic."
    ),
    # Calls and results
    "call.arguments.changed": LossCode(
        "material",
        "Arguments that the target does not take as they are.",
        "Look at the schema: the target takes only what it declares.",
    ),
    "call.incomplete.dropped": LossCode(
        "material",
        "A call that the reply ended inside of; it must not run.",
        "Allow more tokens (max_tokens), so that the call can end.",
    ),
    "call.name.invented": LossCode("minor", "The name of a function whose call is not in the conversation."),
    "result.media.changed": LossCode("minor", "Media of a tool result, sent beside it."),
    "result.text.invented": LossCode("minor", "A text for a result that has none, as the target demands."),
    "result.place.dropped": LossCode(
        "material",
        "A tool result at a place where the target takes none.",
        "Send results directly after the message with their calls.",
    ),
    "call.name.changed": LossCode("minor", "A tool that the model named almost right."),
    "call.id.dropped": LossCode(
        "minor",
        "State that travelled in a call id which the client changed.",
        "Use a client that echoes ids unchanged.",
    ),
    "call.id.invented": LossCode("cosmetic", "The id of a call to which the upstream gave none."),
    "call.repaired.changed": LossCode("minor", "Arguments written as the declared types."),
    "call.name.dropped": LossCode(
        "material",
        "A call without a name; it cannot run.",
        "Nothing: the model's reply was broken. Another model breaks fewer.",
    ),
    "call.arguments.dropped": LossCode(
        "material",
        "Arguments in a form that the call's kind cannot hold.",
        "Declare the tool with the kind of arguments that the model writes.",
    ),
    "call.parallel.dropped": LossCode(
        "material",
        "Further calls, for a client that takes one at a time.",
        "The model makes the other calls in its next reply.",
    ),
    "result.error.changed": LossCode(
        "cosmetic", "The failure of a tool, written into the text of its result."
    ),
    "result.media.dropped": LossCode(
        "material",
        "Media of a result that may hold text only.",
        "Return text from the tool, or send the media in a message of the user.",
    ),
    # Tools
    "tool.declaration.invented": LossCode("minor", "A declaration of a tool that only the history names."),
    "tool.choice.dropped": LossCode(
        "material",
        "A tool choice that the target cannot express.",
        "Say in the prompt which tool to use.",
    ),
    "tool.choice.changed": LossCode(
        "material",
        "A tool choice that the target can only approximate.",
        "Say in the prompt which tool to use.",
    ),
    "tool.deferred.changed": LossCode("minor", "A deferred tool, declared at another time."),
    "tool.namespace.dropped": LossCode("minor", "The namespace of a tool."),
    "hosted.computer.changed": LossCode(
        "material",
        "A computer tool whose actions are not the same.",
        "Check that the agent knows the target's actions.",
    ),
    "hosted.setting.dropped": LossCode(
        "material",
        "A setting of a hosted tool that the target does not have.",
        "Choose a provider that has it; `dragoman plan` compares them.",
    ),
    "hosted.tool_search.changed": LossCode("minor", "A search for tools; what it found is declared instead."),
    "hosted.web_search.invented": LossCode("minor", "A search that the citations of the reply imply."),
    # Reasoning
    "reasoning.signature.invented": LossCode("minor", "A placeholder for a signature that is missing."),
    "reasoning.signature.dropped": LossCode(
        "minor",
        "Reasoning that another provider signed.",
        "Nothing: a conversation that changes its provider goes on without the other's reasoning.",
    ),
    "reasoning.history.dropped": LossCode("minor", "Earlier reasoning, which the target does not take back."),
    "reasoning.history.invented": LossCode(
        "minor", "A placeholder for earlier reasoning, which is demanded."
    ),
    # Replies
    "response.logprobs.dropped": LossCode("minor", "Log probabilities of tokens."),
    "stream.mismatch.changed": LossCode("minor", "The end of a stream contradicts what was streamed before."),
    # Compaction
    "compaction.emulated": LossCode(
        "minor",
        "The upstream has no compaction: the model wrote a summary, which continues with any model.",
        "Nothing; a provider with compaction of its own may keep more.",
    ),
    "compaction.dropped": LossCode(
        "material",
        "A request for compaction, in a translation without a gateway.",
        "Send the request through the gateway, or compact in the client.",
    ),
    "context.edit.emulated": LossCode(
        "minor",
        "The upstream has no context editing: old results or thinking were cleared before the request.",
    ),
    # Conversations that a server stores
    "store.dropped": LossCode(
        "material", "Earlier turns that only another server stores.", "Send the whole conversation."
    ),
}
_HOSTED = (
    *("web_search", "web_fetch", "code_execution", "file_search", "image_generation", "computer", "mcp"),
    *("maps", "local_shell", "shell", "apply_patch", "tool_search", "bash", "text_editor", "memory", "other"),
)
CODES.update(
    {
        f"hosted.{kind}.dropped": LossCode(
            "material",
            f"A hosted tool ({kind}) that the target does not have.",
            "Choose a provider that has it, or give the agent a tool of its own for it.",
        )
        for kind in _HOSTED
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
                "The setting {}, which the target does not have.",
                "Leave it out, or choose a provider that has it; `dragoman plan` compares them.",
            ),
            (
                "changed",
                "The setting {}, for which the target takes other values.",
                "Send a value that the target takes.",
            ),
            ("invented", "The setting {}, which the target requires.", "Send it to choose the value."),
        )
    }
)

CODES["setting.output.emulated"] = LossCode(
    "minor",
    "Structured output for a model that has none here: a tool takes the answer, or a prompt asks for it.",
    "The answer is validated all the same. Choose the way with output_mode.",
)


def severity_of(code: str) -> Severity:
    known = CODES.get(code)
    return known.severity if known else "minor"

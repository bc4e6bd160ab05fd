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
    """`meaning` explains the loss to the reader of a log; `advice` says what can be done about it."""

    severity: Severity
    meaning: str
    advice: str = ""


_material, _minor, _cosmetic = (partial(LossCode, severity) for severity in get_args(Severity))
CODES: dict[str, LossCode] = {
    # Declarations of tools
    "tool.schema.changed": _minor(
        "The target does not take a keyword of the schema; the model reads the constraint in a description.",
        "Arguments are still checked against the schema that the client declared.",
    ),
    "tool.schema.dropped": _minor(
        "A part of the schema that cannot mean anything was left out.",
        "Nothing: what was left out allowed everything.",
    ),
    "tool.schema.annotation.dropped": _cosmetic(
        "A keyword that constrains nothing, such as $schema or $comment, was left out."
    ),
    "tool.strict.changed": _material(
        "Strict mode was left off: it cannot express all that the schema allows.",
        "Close the schema (additionalProperties: false, a type for every value) to get strict mode back.",
    ),
    "tool.custom.changed": _minor("A freeform tool, declared as a function with one string."),
    "tool.count.dropped": _material(
        "A tool beyond the number that the server takes.",
        "Declare fewer tools; max_tools of the model's profile sets the number.",
    ),
    "tool.duplicate.dropped": _material("A second tool of the same name.", "Declare each name once."),
    "hosted.function.changed": _minor(
        "A tool that runs at the client, declared as a function for a target that does not know it."
    ),
    # Results
    "result.orphan.changed": _minor(
        "A tool result without its call, sent as text.", "Send each result after the message with its call."
    ),
    "result.orphan.dropped": _minor("A second result for the same call."),
    "result.missing.invented": _minor(
        "A result for a call that has none in the conversation.",
        "Send a result for every call before the next message.",
    ),
    # Media
    "media.image.changed": _material(
        "An image for a model that reads text only; a note stands in its place.",
        "Choose a model that takes images, or set images = true for this one if it does.",
    ),
    "media.type.changed": _cosmetic("A media type that contradicts the first bytes of the file."),
    "media.summary.changed": _material(
        'A binary result, summarised as text because of images="summary".',
        'Use images="send", or a model that takes images.',
    ),
    # Text dialects
    "dialect.call.changed": _minor(
        "A call in the text of a reply was broken or repaired, or a past call does not parse back the same.",
        "Look at the reply in the recording; a larger model, or another dialect, breaks fewer calls.",
    ),
    "dialect.call.dropped": _material(
        "The dialect allows one call in a reply; further ones were left out.",
        "The agent sees only the first call; the model makes the others in its next reply.",
    ),
    "reasoning.call.dropped": _minor(
        "A call that stands in the reasoning, before text or in a reply that was cut; it does not run."
    ),
    "call.recovered.changed": _minor("A call that the model wrote as text became a call."),
    "call.recovered.dropped": _cosmetic("A call was written as text and made natively as well."),
    # What a request carries beside the neutral model
    "field.option.changed": _minor("A field of provider_options, in place of one of the request."),
    "field.unknown.dropped": _minor(
        "A field that only the client's own protocol defines.",
        "Nothing, unless you rely on it; then choose a provider of the client's own protocol.",
    ),
    # Content
    "part.unknown.dropped": _material(
        "A part that only its own protocol understands.",
        "Choose a provider of the client's own protocol for this conversation.",
    ),
    "part.unknown.changed": _minor("A part that only its own protocol understands, sent as text."),
    "part.place.dropped": _material(
        "A part that the target does not take at this place.", "Send it in a message of the user."
    ),
    "event.unknown.dropped": _minor("A stream event that only its own protocol understands."),
    "text.blank.dropped": _cosmetic("A text of white space, which the target refuses."),
    "text.blank.changed": _cosmetic("White space at the end, which the target refuses."),
    "citation.dropped": _minor("A source that the target cannot cite."),
    "citation.detail.dropped": _cosmetic(
        "What a citation says beside its source: the words that it quotes, or where they stand.",
        "Nothing, unless you show them; then choose a provider of the client's own protocol.",
    ),
    "text.join.changed": _cosmetic("Two texts, joined: the target has one field for both."),
    "media.name.dropped": _cosmetic("The name of a file."),
    "media.type.invented": _minor("A media type, guessed because the target requires one."),
    "media.name.changed": _cosmetic("A file name, in the characters that the target takes."),
    "media.image.dropped": _material(
        "An image that the target does not take.",
        "Choose a model that takes images, or send the image in a message of the user.",
    ),
    "media.document.dropped": _material(
        "A document that the target does not take.", "Choose a model that takes documents, or send its text."
    ),
    "media.audio.dropped": _material(
        "Audio that the target does not take.", "Choose a model that takes audio, or send a transcript."
    ),
    "media.video.dropped": _material(
        "A video that the target does not take.", "Choose a model that takes video, or send single images."
    ),
    "media.detail.dropped": _minor("How closely the model looks at an image."),
    "media.document.changed": _minor("A document, sent as text or as its address."),
    "media.name.invented": _cosmetic("A file name that the target demands."),
    "stop.reason.changed": _material(
        "A reason to stop that the target has no word for.",
        "Read the reply's text: the agent gets the nearest reason that its protocol has.",
    ),
    "stop.sequence.dropped": _cosmetic("Which of the client's stop sequences ended the reply."),
    "usage.detail.dropped": _cosmetic("A count that the target does not report."),
    "response.choices.dropped": _material(
        "Further answers; only the first one is passed on.",
        "Ask once for each answer (n = 1), or use a provider that gives several.",
    ),
    "cache.breakpoint.changed": _cosmetic("A mark for a prompt cache, with a shorter life than asked for."),
    "cache.breakpoint.dropped": _cosmetic(
        "A mark for a prompt cache, at a place where the target takes none."
    ),
    # Messages
    "message.order.dropped": _minor("A part for which the target's order has no place."),
    "message.order.changed": _minor("A message stands at another place, as the target demands."),
    "message.role.changed": _minor("A message, sent in a role that the target takes here."),
    "message.filler.invented": _minor("A turn that the target demands and nobody wrote."),
    "message.prefill.changed": _minor(
        "A last message of the assistant; it is not continued.",
        "Ask for the form of the answer in a message of the user instead.",
    ),
    "message.refusal.changed": _minor("A refusal, sent as text."),
    "system.attribution.dropped": _cosmetic("A billing line that Claude Code writes for Anthropic."),
    # Calls and results
    "call.arguments.changed": _material(
        "Arguments that the target does not take as they are.",
        "Look at the schema: the target takes only what it declares.",
    ),
    "call.incomplete.dropped": _material(
        "A call that the reply ended inside of; it must not run.",
        "Allow more tokens (max_tokens), so that the call can end.",
    ),
    "call.name.invented": _minor("The name of a function whose call is not in the conversation."),
    "result.media.changed": _minor("Media of a tool result, sent beside it."),
    "result.text.invented": _minor("A text for a result that has none, as the target demands."),
    "result.place.dropped": _material(
        "A tool result at a place where the target takes none.",
        "Send results directly after the message with their calls.",
    ),
    "call.name.changed": _minor("A tool that the model named almost right."),
    "call.id.dropped": _minor(
        "State that travelled in a call id which the client changed.",
        "Use a client that echoes ids unchanged.",
    ),
    "call.id.invented": _cosmetic("The id of a call to which the upstream gave none."),
    "call.empty.changed": _cosmetic("An empty array of arguments, which stands for an empty object."),
    "call.repaired.changed": _minor("Arguments written as the declared types."),
    "call.name.dropped": _material(
        "A call without a name; it cannot run.",
        "Nothing: the model's reply was broken. Another model breaks fewer.",
    ),
    "call.arguments.dropped": _material(
        "Arguments in a form that the call's kind cannot hold.",
        "Declare the tool with the kind of arguments that the model writes.",
    ),
    "call.parallel.dropped": _material(
        "Further calls, for a client that takes one at a time.",
        "The model makes the other calls in its next reply.",
    ),
    "result.error.changed": _cosmetic("The failure of a tool, written into the text of its result."),
    "result.error.dropped": _minor("That a tool failed; the text of its result is there."),
    "result.media.dropped": _material(
        "Media of a result that may hold text only.",
        "Return text from the tool, or send the media in a message of the user.",
    ),
    # Tools
    "tool.declaration.invented": _minor("A declaration of a tool that only the history names."),
    "tool.choice.dropped": _material(
        "A tool choice that the target cannot express.", "Say in the prompt which tool to use."
    ),
    "tool.choice.changed": _material(
        "A tool choice that the target can only approximate.", "Say in the prompt which tool to use."
    ),
    "tool.deferred.changed": _minor("A deferred tool, declared at another time."),
    "tool.namespace.dropped": _minor("The namespace of a tool."),
    "hosted.emulated": _minor(
        "A hosted tool that the upstream lacks: the model called it as a function, and the gateway ran it.",
        "Nothing; a target that runs the tool itself gets it as it is.",
    ),
    "hosted.computer.changed": _material(
        "A computer tool whose actions are not the same.", "Check that the agent knows the target's actions."
    ),
    "hosted.setting.dropped": _material(
        "A setting of a hosted tool that the target does not have.",
        "Choose a provider that has it; `dragoman plan` compares them.",
    ),
    "hosted.choice.changed": _minor(
        "A hosted tool that the client's tool choice does not allow, withheld because the target's choice "
        "does not cover hosted tools."
    ),
    "hosted.domains.changed": _cosmetic("Blocked domains, which lie outside the allowed ones."),
    "hosted.tool_search.changed": _minor("A search for tools; what it found is declared instead."),
    "hosted.web_search.invented": _minor("A search that the citations of the reply imply."),
    # Reasoning
    "reasoning.signature.invented": _minor("A placeholder for a signature that is missing."),
    "reasoning.signature.dropped": _minor(
        "Reasoning that another provider signed.",
        "Nothing: a conversation that changes its provider goes on without the other's reasoning.",
    ),
    "transcript.order.dropped": _minor(
        "An order to edit or to sum up the conversation, which is not carried out on a record of it."
    ),
    "reasoning.history.dropped": _minor("Earlier reasoning, which the target does not take back."),
    "reasoning.history.invented": _minor("A placeholder for earlier reasoning, which is demanded."),
    # Replies
    "response.logprobs.dropped": _minor("Log probabilities of tokens."),
    "stream.mismatch.changed": _minor("The end of a stream contradicts what was streamed before."),
    # Compaction
    "compaction.emulated": _minor(
        "The upstream has no compaction: the model wrote a summary, which continues with any model.",
        "Nothing; a provider with compaction of its own may keep more.",
    ),
    "compaction.dropped": _material(
        "A request for compaction, in a translation without a gateway.",
        "Send the request through the gateway, or compact in the client.",
    ),
    "context.edit.emulated": _minor(
        "The upstream has no context editing: old results or thinking were cleared before the request."
    ),
    "prompt.dropped": _material(
        "A prompt template that only another server stores.", "Send the text of the prompt."
    ),
    # Conversations that a server stores
    "store.dropped": _material(
        "Earlier turns that only another server stores.", "Send the whole conversation."
    ),
}
CODES.update(
    {
        f"hosted.{kind}.dropped": _material(
            f"A hosted tool ({kind}) that the target does not have.",
            "Choose a provider that has it, or give the agent a tool of its own for it.",
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

CODES["setting.configured.changed"] = _minor(
    "A setting that the gateway's configuration decides (`set`, `default` or `extra`).",
    "Ask the operator of the gateway, or ask for a model that leaves it to you.",
)
CODES["setting.output.emulated"] = _minor(
    "Structured output for a model that has none here: a tool takes the answer, or a prompt asks for it.",
    "The answer is validated all the same. Choose the way with output_mode.",
)


def severity_of(code: str) -> Severity:
    known = CODES.get(code)
    return known.severity if known else "minor"

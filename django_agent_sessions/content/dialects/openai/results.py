"""Contents of the items that are tool results."""

from __future__ import annotations

from django_agent_sessions.content.dialects.media import (
    base64_size,
    is_encoded_text,
    media_from_url,
    media_type,
)
from django_agent_sessions.content.dialects.parts import Part, PartKind, text_of, unknown_part

from . import blocks
from .blocks import Item, Parts


def no_contents(item: Item) -> Parts:
    """Return no parts: the result has no content."""
    return ()


def output(item: Item) -> Parts:
    """Return the output of a function or a custom tool."""
    return blocks.read_content(item.get("output"))


def screenshot(item: Item) -> Parts:
    """Return the screenshot of a computer tool."""
    return blocks.read_block(item["output"]) if item.get("output") is not None else ()


def program_result(item: Item) -> Parts:
    """Return the result of a program."""
    return blocks.read_content(item.get("result"))


def approval_reason(item: Item) -> Parts:
    """Return the reason of an approval or a rejection."""
    return blocks.read_content(item.get("reason"))


def mcp_output(item: Item) -> Parts:
    """Return the output and the error of an MCP tool."""
    error = item.get("error")
    if error is None:
        return output(item)
    message = error.get("message") if isinstance(error, dict) else error
    if isinstance(message, str):
        return (*output(item), blocks.text_part(message))
    return (*output(item), *_mcp_error_contents(error))


def _mcp_error_contents(error: object) -> Parts:
    """Convert an error in MCP's content format: ``[{"type": "text", …}, …]``."""
    content = error.get("content") if isinstance(error, dict) else None
    return blocks.read_content(content) if content is not None else (unknown_part(error),)


def passages(item: Item) -> Parts:
    """Return the passages that a file search found."""
    return blocks.read_each(item.get("results"), _passage)


def _passage(result: Item) -> Parts | None:
    if not isinstance(result.get("text"), str):
        return None
    return (
        Part(
            PartKind.DOCUMENT,
            text=result["text"],
            name=text_of(result.get("filename")),
            data=blocks.present_fields(result, "file_id", "score", "attributes"),
        ),
    )


def interpreter_output(item: Item) -> Parts:
    """Return the logs and images of a code interpreter."""
    return blocks.read_each(item.get("outputs"), _interpreter_output)


def _interpreter_output(output: Item) -> Parts | None:
    if isinstance(output.get("logs"), str):
        return (blocks.text_part(output["logs"]),)
    if is_encoded_text(output.get("url")):
        return (blocks.block_media_part(PartKind.IMAGE, media_from_url(output["url"])),)
    return None


def shell_output(item: Item) -> Parts:
    """Return the output of shell commands."""
    value = item.get("output")
    # Some tools, such as the local shell, return one text.
    if isinstance(value, str):
        return blocks.read_content(value)
    return blocks.read_each(value, _shell_chunk)


def _shell_chunk(chunk: Item) -> Parts | None:
    streams = [chunk.get("stdout"), chunk.get("stderr")]
    if not all(isinstance(stream, str) for stream in streams):
        return None
    return tuple(blocks.text_part(stream) for stream in streams if stream)


def generated_image(item: Item) -> Parts:
    """Return a generated image and its error."""
    result, error = item.get("result"), item.get("error")
    found: list[Part] = []
    if is_encoded_text(result):
        declared_type = media_type("image", item.get("output_format"))
        found.append(Part(PartKind.IMAGE, media_type=declared_type, size=base64_size(result)))
    elif result is not None:
        found.append(unknown_part({"result": result}))
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        found.append(blocks.text_part(error["message"]))
    elif error is not None:
        found.append(unknown_part({"error": error}))
    return tuple(found)

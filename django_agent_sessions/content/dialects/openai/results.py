"""Contents of the items that are tool results."""

from __future__ import annotations

from collections.abc import Iterator

from django_agent_sessions.content.dialects.base import TranscriptBlock, parts_of
from django_agent_sessions.content.dialects.media import (
    base64_size,
    is_encoded_text,
    media_from_url,
    media_type,
)
from django_agent_sessions.content.dialects.parts import (
    Part,
    PartKind,
    binary_part,
    text_of,
    unknown_part,
)

from . import blocks
from .blocks import Blocks, Item, Parts


def no_contents(item: Item) -> Blocks:
    """Return no blocks: the result has no content."""
    return ()


def output(item: Item) -> Blocks:
    """Return the output of a function or a custom tool."""
    return blocks.read_content(item, "output")


def screenshot(item: Item) -> Blocks:
    """Return the screenshot of a computer tool."""
    if item.get("output") is None:
        return ()
    return (TranscriptBlock(("output",), blocks.read_block(item["output"])),)


def program_result(item: Item) -> Blocks:
    """Return the result of a program."""
    return blocks.read_content(item, "result")


def approval_reason(item: Item) -> Blocks:
    """Return the reason of an approval or a rejection."""
    return blocks.read_content(item, "reason")


def mcp_output(item: Item) -> Blocks:
    """Return the output and the error of an MCP tool."""
    error = item.get("error")
    if error is None:
        return output(item)
    return (*output(item), TranscriptBlock(("error",), tuple(_mcp_error(error))))


def _mcp_error(error: object) -> Iterator[Part]:
    fields: Item = error if isinstance(error, dict) else {"message": error}
    if isinstance(fields.get("message"), str):
        yield blocks.text_part(fields["message"])
    elif fields.get("content") is not None:
        # MCP's content format: ``[{"type": "text", …}, …]``.
        yield from parts_of(blocks.read_content(fields, "content"))
    else:
        yield unknown_part(error)


def loaded_tools(item: Item) -> Blocks:
    """Return a block without content for each tool."""
    return blocks.read_each(item, "tools", lambda tool: ())


def passages(item: Item) -> Blocks:
    """Return the passages that a file search found."""
    return blocks.read_each(item, "results", _passage)


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


def interpreter_output(item: Item) -> Blocks:
    """Return the logs and images of a code interpreter."""
    return blocks.read_each(item, "outputs", _interpreter_output)


def _interpreter_output(output: Item) -> Parts | None:
    if isinstance(output.get("logs"), str):
        return (blocks.text_part(output["logs"]),)
    if is_encoded_text(output.get("url")):
        return (binary_part(PartKind.IMAGE, media_from_url(output["url"])),)
    return None


def shell_output(item: Item) -> Blocks:
    """Return the output of shell commands."""
    # Some tools, such as the local shell, return one text.
    if isinstance(item.get("output"), str):
        return output(item)
    return blocks.read_each(item, "output", _shell_chunk)


def _shell_chunk(chunk: Item) -> Parts | None:
    streams = [chunk.get("stdout"), chunk.get("stderr")]
    if not all(isinstance(stream, str) for stream in streams):
        return None
    return tuple(blocks.text_part(stream) for stream in streams if stream)


def generated_image(item: Item) -> Blocks:
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
    return (TranscriptBlock(("result",), tuple(found)),) if found else ()

"""Messages and reasoning of the Responses API."""

from __future__ import annotations

from django_agent_sessions.content.dialects import Part

from .examples import BASE64, DOCUMENT, FILE, IMAGE, PNG, REASONING, TEXT, Example, said, text

ANNOTATION = {
    "type": "url_citation",
    "url": "https://example.org/",
    "title": "Milk",
    "start_index": 0,
    "end_index": 4,
}

MESSAGES: dict[str, Example] = {
    "message of one text": (
        {"role": "user", "content": "Hello"},
        "user",
        "Hello",
        (text("Hello"),),
    ),
    "message of a developer": (
        said("developer", {"type": "input_text", "text": "Be kind."}),
        "system",
        "Be kind.",
        (text("Be kind."),),
    ),
    "message of the model": (
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "White.", "annotations": [ANNOTATION]},
                {"type": "output_text", "text": "Done.", "annotations": []},
                {"type": "refusal", "refusal": "I will not."},
            ],
        },
        "assistant",
        "White.\nDone.\nI will not.",
        (Part(TEXT, text="White.", data=[ANNOTATION]), text("Done."), text("I will not.")),
    ),
    "message with images": (
        said(
            "user",
            {"type": "input_image", "detail": "auto", "image_url": PNG},
            {"type": "input_image", "detail": "auto", "image_url": "https://example.org/a.png"},
            {"type": "input_image", "detail": "auto", "file_id": "file-1"},
        ),
        "user",
        "",
        (
            Part(IMAGE, media_type="image/png", size=5),
            Part(IMAGE, url="https://example.org/a.png"),
            Part(IMAGE, data=FILE),
        ),
    ),
    "message with files": (
        said(
            "user",
            {
                "type": "input_file",
                "filename": "a.pdf",
                "file_data": f"data:application/pdf;base64,{BASE64}",
            },
            {"type": "input_file", "filename": "b.pdf", "file_data": BASE64},
            {"type": "input_file", "file_url": "https://example.org/c.pdf"},
            {"type": "input_file", "file_id": "file-1"},
        ),
        "user",
        "",
        (
            Part(DOCUMENT, name="a.pdf", media_type="application/pdf", size=5),
            Part(DOCUMENT, name="b.pdf", size=5),
            Part(DOCUMENT, url="https://example.org/c.pdf"),
            Part(DOCUMENT, data=FILE),
        ),
    ),
    "reasoning": (
        {
            "id": "rs_1",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "In short."}],
            "content": [{"type": "reasoning_text", "text": "At length."}],
            "encrypted_content": "gAAAA",
        },
        "assistant",
        "",
        (Part(REASONING, text="In short."), Part(REASONING, text="At length.")),
    ),
    "reasoning that is only encrypted": (
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA"},
        "assistant",
        "",
        (Part(REASONING),),
    ),
}

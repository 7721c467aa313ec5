"""The layout of Strands' file and S3 session managers, over any Django storage, without the SDK.

Both managers use the same layout, so that files can be copied to a bucket and back.
"""

from __future__ import annotations

from .session_layout import Layout

__all__ = ["Layout"]

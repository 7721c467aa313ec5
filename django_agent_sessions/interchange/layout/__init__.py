"""Sessions as Strands' file and S3 session managers lay them out, over any Django storage. No SDK.

Both lay them out alike, so that files may be copied to a bucket and back.
"""

from __future__ import annotations

from .sessions import Layout

__all__ = ["Layout"]

"""uvicorn before 0.36: uvloop is the loop policy of the whole process.

``python -m benchmarks.contexts.policy PORT``
"""

from __future__ import annotations

import asyncio
import sys
import warnings

import uvicorn
import uvloop

if __name__ == "__main__":
    with warnings.catch_warnings():
        # Python 3.14 deprecates policies.
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    uvicorn.run(
        "benchmarks.contexts.asgi:application",
        port=int(sys.argv[1]),
        loop="none",
        log_level="warning",
    )

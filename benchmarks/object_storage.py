"""A server that speaks S3, in a process of its own: moto's, which keeps everything in memory."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

BUCKET = "benchmark"
KEYS = {
    "aws_access_key_id": "test",
    "aws_secret_access_key": "test",
    "region_name": "us-east-1",
}
_SERVER = """
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
input()
"""


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Starts the server, makes the bucket, and stops the server at the end."""
    there = os.environ.get("AWS_ENDPOINT_URL")
    if there:
        yield there
        return
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        endpoint = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        os.environ["AWS_ENDPOINT_URL"] = endpoint
        session().client("s3", endpoint_url=endpoint).create_bucket(Bucket=BUCKET)
        yield endpoint
    finally:
        os.environ.pop("AWS_ENDPOINT_URL", None)
        server.communicate("\n")


@functools.cache
def session() -> Any:
    """A boto session, of which a process needs one: to make it takes long."""
    import boto3

    return boto3.Session(**KEYS)

"""The standard streams of a call."""

import io
import sys


class Input(io.RawIOBase):
    """The standard input of a call: its inputs as JSON, encoded only when it is read."""

    def __init__(self):
        self.value = None
        self.bytes = None

    def readable(self):
        return True

    def readinto(self, buffer):
        if self.bytes is None:
            self.bytes = io.BytesIO(encode(self.value))
        return self.bytes.readinto(buffer)


def open_output(fd):
    raw = io.FileIO(fd, "w", closefd=False)
    # Lines are passed on at once, so that they are visible while the code runs.
    return io.TextIOWrapper(
        io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True
    )


class Streams:
    """Streams that the zygote creates, so that its processes need not."""

    def __init__(self):
        self.input = Input()
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(self.input), "utf-8")
        sys.stdout = sys.__stdout__ = open_output(1)
        sys.stderr = sys.__stderr__ = open_output(2)
        self.outputs = [sys.stdout, sys.stderr]

    def flush(self):
        """Flushes the streams, including those that the code has put in their places."""
        replaced = [getattr(sys, name, None) for name in ("stdout", "stderr")]
        for stream in replaced + self.outputs:
            try:
                stream.flush()
            except BaseException:
                pass

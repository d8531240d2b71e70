"""Stands between a host and a server and keeps every byte that passes. It ends when and how the server ends.

usage: tee.py RECORD COMMAND ARG…
RECORD holds what the server was sent, RECORD.stdout what it wrote, and RECORD.pid its process id.
"""

import os
import subprocess
import sys
import threading
from typing import BinaryIO

record, *command = sys.argv[1:]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
with open(f"{record}.pid", "w") as pid:
    pid.write(str(server.pid))


def pump(source: BinaryIO, file: str, sink: BinaryIO) -> None:
    with source, open(file, "ab", buffering=0) as kept, sink:
        while data := os.read(source.fileno(), 65536):
            # Kept first: whatever one end has seen is on record.
            kept.write(data)
            try:
                while data:
                    data = data[os.write(sink.fileno(), data) :]
            except BrokenPipeError:
                return  # nobody reads any more; closing the source says so to the other end


def thread(*pumping: object) -> threading.Thread:
    started = threading.Thread(target=pump, args=pumping, daemon=True)
    started.start()
    return started


thread(sys.stdin.buffer, record, server.stdin)
answers = thread(server.stdout, f"{record}.stdout", sys.stdout.buffer)
status = server.wait()
answers.join()
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)

"""Stands between a host and a server and keeps every byte the server is sent. It ends when and how the server ends.

usage: tee.py RECORD COMMAND ARG…      the server's process id is written to RECORD.pid
"""

import os
import subprocess
import sys
import threading

record, *command = sys.argv[1:]
server = subprocess.Popen(command, stdin=subprocess.PIPE)
with open(f"{record}.pid", "w") as pid:
    pid.write(str(server.pid))


def pump() -> None:
    with open(record, "ab", buffering=0) as kept, server.stdin:
        while data := os.read(0, 65536):
            kept.write(data)
            server.stdin.write(data)
            server.stdin.flush()


def pump_until_broken() -> None:
    try:
        pump()
    except BrokenPipeError:
        pass  # the server is gone, and with it soon this process


threading.Thread(target=pump_until_broken, daemon=True).start()
status = server.wait()
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)

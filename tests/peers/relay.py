"""TCP relays that can be cut, as networks are: for partitions between replicas and their store, and for taking records."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any


class Relays:
    """All relays of a test, on one thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def to(self, port: int, record: bool = False) -> "Relay":
        """A relay to this port of the loopback address."""
        relay = Relay(self, port, record)
        self.run(relay.open())
        return relay

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(60)


class Relay:
    def __init__(self, relays: Relays, target: int, record: bool) -> None:
        self.relays = relays
        self.target = target
        self.port = 0
        self.server: asyncio.Server | None = None
        self.writers: set[asyncio.StreamWriter] = set()
        self.flows = asyncio.Event()
        self.flows.set()
        # What was sent by the other side, connection by connection.
        self.records: list[bytearray] | None = [] if record else None

    async def open(self) -> None:
        self.server = await asyncio.start_server(self.carry, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    def silence(self) -> None:
        """Nothing passes any more, and nobody is told: what was sent arrives when it is mended."""
        self.relays.loop.call_soon_threadsafe(self.flows.clear)

    def refuse(self) -> None:
        """All connections break, and nobody listens."""
        self.relays.run(self.close())

    def mend(self) -> None:
        self.relays.loop.call_soon_threadsafe(self.flows.set)
        if self.server is None:
            self.relays.run(self.open())

    async def close(self) -> None:
        if self.server is not None:
            self.server.close()
        self.server = None
        for writer in list(self.writers):
            writer.transport.abort()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.flows.wait()
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, up_writer}
        self.writers |= both
        record = None
        if self.records is not None:
            record = bytearray()
            self.records.append(record)
        await asyncio.gather(self.pump(reader, up_writer, None), self.pump(up_reader, writer, record))
        self.writers -= both
        for end in both:
            end.close()

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: bytearray | None) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self.flows.wait()
                if record is not None:
                    record += data
                writer.write(data)
                await writer.drain()
            await self.flows.wait()
            writer.close()
        except (OSError, RuntimeError):
            # One end broke, so the other does.
            with contextlib.suppress(RuntimeError):
                writer.transport.abort()

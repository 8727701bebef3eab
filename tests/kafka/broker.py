"""A real broker of Kafka on this machine: one process that is broker and controller."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.spark.processes import free_ports

START_WITHIN_S = 90

SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/logs
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


class Broker:
    """Stopped and started by tests; topics outlive that."""

    def __init__(self, folder: Path, jars: Path) -> None:
        self._folder, self._jars = folder, jars
        self._process: subprocess.Popen[bytes] | None = None
        self.port, controller = free_ports(2)
        self.servers = f"127.0.0.1:{self.port}"
        self._settings = folder / "server.properties"
        self._settings.write_text(SETTINGS.format(port=self.port, controller=controller, folder=folder))
        self._run("kafka.tools.StorageTool", "format", "--standalone", "-t", str(uuid.uuid4()), "-c")

    def _run(self, name: str, *arguments: str) -> None:
        command = [*self._java(name), *arguments, str(self._settings)]
        subprocess.run(command, check=True, capture_output=True, timeout=START_WITHIN_S)

    def _java(self, name: str) -> list[str]:
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [shutil.which("java") or "java", *options, "-cp", f"{self._jars}/*", name]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java("kafka.Kafka"), str(self._settings)], stdout=log, stderr=log
            )
        end_s = time.monotonic() + START_WITHIN_S
        while True:
            assert self._process.poll() is None, (self._folder / "broker.log").read_text()[-2000:]
            try:
                return socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert time.monotonic() < end_s, "the broker does not answer"
                time.sleep(0.1)

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def create(self, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        for done in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            done.result(60)

    def produce(self, topic: str, records: Iterable[tuple[int, bytes | None, bytes | None]]) -> None:
        """Write records: partition, key and value."""
        producer = Producer({"bootstrap.servers": self.servers})
        for partition, key, value in records:
            producer.produce(topic, value, key, partition)
            producer.poll(0)
        assert producer.flush(60) == 0

    def committed(self, topic: str) -> list[dict[str, Any]]:
        """The values of all records that readers of committed ones see, with their headers."""
        settings = {"group.id": uuid.uuid4().hex, "isolation.level": "read_committed"}
        consumer = Consumer({"bootstrap.servers": self.servers, **settings, "enable.partition.eof": True})
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found, ended = [], 0
        while ended < len(partitions):
            message = consumer.poll(30)
            assert message is not None, f"{topic} does not end"
            if message.error():
                ended += 1
            else:
                found.append(
                    {"value": json.loads(message.value()), "key": message.key(), **_headers(message)}
                )
        consumer.close()
        return found


def _headers(message: Any) -> Mapping[str, str]:
    return {name: value.decode() for name, value in message.headers() or ()}

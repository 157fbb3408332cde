"""A real broker of Kafka of the tests' own, on loopback, in a temporary folder: its jars come as Spark's packages do, by Ivy."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dagster_operators.connectors.kafka_topic import KafkaTopic
from tests.storage.jars import retrieve

VERSION = "3.9.1"
_DEPENDENCY = f'<dependency org="org.apache.kafka" name="kafka_2.13" rev="{VERSION}" conf="*->default,runtime"/>'
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "false",
}


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in found]


class KafkaBroker:
    """Started with :meth:`start`, gone after :meth:`stop`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        port, self._controller = _free_ports(2)
        self.servers = f"127.0.0.1:{port}"

    def start(self) -> None:
        """Raises CalledProcessError if the jars cannot be had."""
        retrieve(_DEPENDENCY, self._folder)
        settings = {
            **_SETTINGS,
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "log.dirs": str(self._folder / "data"),
        }
        file = self._folder / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAQACAAAAAAAAAAQ", "-c", str(file))
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*self._command(), "kafka.Kafka", str(file)], stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 300
        while True:
            with contextlib.suppress(Exception), KafkaTopic(self.servers, "none", None, 10) as topic:
                topic.exists()
                return
            assert time.monotonic() < deadline, (self._folder / "log").read_text()[-2000:]
            assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]

    def stop(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def topic(self, partitions: int = 2) -> str:
        """A new topic."""
        name = f"t{uuid.uuid4().hex[:8]}"
        self._create(name, partitions)
        return name

    def create_again(self, topic: str) -> None:
        """Delete a topic and create one of the name, with one partition."""
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        admin.delete_topics([topic])[topic].result()
        self._create(topic, 1)

    def _create(self, name: str, partitions: int) -> None:
        """Create a topic; where one of the name is still being deleted, as soon as it is gone."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        while True:
            try:
                admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                time.sleep(0.2)
            else:
                break
        while (seen := admin.list_topics(name, timeout=60).topics[name]).error or len(seen.partitions) < partitions:
            time.sleep(0.2)  # a broker that is slow answers before it knows of the topic that it made

    def committed(self, topic: str) -> list[tuple[Any, Any]]:
        """Keys and values of all that is committed."""
        with KafkaTopic(self.servers, topic, None, 120) as found:
            ranges = {number: bound for number, bound in found.bounds().items() if bound[0] < bound[1]}
            return [(one.key(), one.value()) for records in found.records(ranges) for one in records] if ranges else []

    def _command(self) -> list[str]:
        return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{self._folder}/lib/*"]

    def _java(self, *arguments: str) -> None:
        self._run([*self._command(), *arguments])

    @staticmethod
    def _run(command: Sequence[str]) -> None:
        subprocess.run(command, check=True, capture_output=True, timeout=600)

"""A checkpoint folder: whose it is, its manifests, its blocks."""

from __future__ import annotations

import json
import uuid
from typing import Any

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.shedding import Course
from headgate.spark.files import Files
from headgate.spark.manifest import Manifest

_KEPT_MANIFESTS = 2
EDDIES = "eddies"


class Checkpoint:
    """Durable state below one folder.

    ``spark/`` is Structured Streaming's own checkpoint, ``manifests/`` one document a tick,
    ``blocks/`` tuples, ``eddies/`` what jobs of pools wrote, ``dead-letters/`` rows set aside,
    ``results/`` of queries INTO memory.
    """

    def __init__(self, files: Files, root: str) -> None:
        self.root = root.rstrip("/")
        self._files = files
        self._identity_path = f"{self.root}/headgate.json"
        self.uid = ""

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk of this machine, as far as its address tells."""
        return "://" not in self.root or self.root.startswith("file:")

    def open(self, network: Network) -> None:
        """Claim a new folder, or make sure that an old one belongs to these very queries."""
        found = self._identity()
        if found is None:
            self.uid = uuid.uuid4().hex[:8]
            identity = {"uid": self.uid, "fingerprint": network.fingerprint, "queries": list(network.queries)}
            self._files.make_folder(self.root)
            self._files.write_text(self._identity_path, json.dumps(identity))
        else:
            self.uid = found["uid"]

    def check(self, network: Network) -> None:
        """Refuse a folder that belongs to something else, without touching it."""
        found = self._identity()
        if found is None:
            if self._files.names(self.root):
                raise SetupError(
                    f"checkpoint {self.root} is not empty and not Headgate's; choose an empty or new folder"
                )
        elif found["fingerprint"] != network.fingerprint:
            raise SetupError(
                f"checkpoint {self.root} belongs to other queries ({', '.join(found['queries'])}, or an "
                "earlier version of them); choose another folder, or remove it to start anew"
            )

    def belongs_to(self, network: Network) -> bool:
        """Whether these very operators have left it."""
        found = self._identity()
        return found is not None and found["fingerprint"] == network.fingerprint

    def _identity(self) -> dict[str, Any] | None:
        if not self._files.exists(self._identity_path):
            return None
        try:
            found: dict[str, Any] = json.loads(self._files.read_text(self._identity_path))
        except ValueError as error:
            raise SetupError(f"{self._identity_path} is damaged: {error}") from error
        return found

    @property
    def spark_folder(self) -> str:
        """Structured Streaming's part."""
        return f"{self.root}/spark"

    @property
    def dead_letters(self) -> str:
        """Rows that were late or did not parse."""
        return f"{self.root}/dead-letters"

    def results(self, query: str) -> str:
        """Results of a query INTO memory."""
        return f"{self.root}/results/{query}"

    def block(self, batch_id: int, name: str) -> str:
        """Path of a new block, relative to the checkpoint."""
        return f"blocks/{batch_id:09d}/{name}"

    def eddy_block(self, name: str) -> str:
        """Path of what a job of a pool writes, relative to the checkpoint."""
        return f"{EDDIES}/{name}"

    def full(self, relative: str) -> str:
        """A block's path as Spark reads it."""
        return f"{self.root}/{relative}"

    def last_manifest(self, course: Course) -> Manifest:
        """State after the last tick that happened; before the first, ``course`` is what it will go by."""
        names = [n for n in self._files.names(f"{self.root}/manifests") if n.endswith(".json")]
        if not names:
            beginning = Manifest(course=course)
            if course.keep:
                # tuples that the first tick sheds must be the same when it is tried again
                self.commit(beginning)
            return beginning
        return Manifest.from_json(self._files.read_text(f"{self.root}/manifests/{names[-1]}"))

    def begin(self, batch_id: int) -> None:
        """Remove what an interrupted attempt at this tick has left behind."""
        self._files.delete(f"{self.root}/blocks/{batch_id:09d}")

    def commit(self, manifest: Manifest) -> None:
        """The tick has happened."""
        self._files.write_text(f"{self.root}/manifests/{manifest.batch_id:09d}.json", manifest.to_json())

    def sweep_eddies(self, needed: set[str]) -> None:
        """Drop what jobs of an earlier run wrote that no manifest knows of."""
        for name in self._files.names(f"{self.root}/{EDDIES}"):
            if self.eddy_block(name) not in needed:
                self.drop(self.eddy_block(name))

    def drop(self, relative: str) -> None:
        """Remove a block."""
        self._files.delete(self.full(relative))

    def sweep(self, manifest: Manifest) -> None:
        """Drop manifests and blocks that no restart can ask for."""
        folder = f"{self.root}/manifests"
        for name in [n for n in self._files.names(folder) if n.endswith(".json")][:-_KEPT_MANIFESTS]:
            self._files.delete(f"{folder}/{name}")
        needed = manifest.block_paths()
        blocks = f"{self.root}/blocks"
        for batch in self._files.names(blocks):
            if int(batch) > manifest.batch_id:
                # of the tick under way
                continue
            kept = False
            for name in self._files.names(f"{blocks}/{batch}"):
                if f"blocks/{batch}/{name}" in needed:
                    kept = True
                else:
                    self._files.delete(f"{blocks}/{batch}/{name}")
            if not kept:
                self._files.delete(f"{blocks}/{batch}")

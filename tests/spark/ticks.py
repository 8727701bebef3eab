"""Checkpoint folders as ticks leave them, made without Spark."""

from __future__ import annotations

from pathlib import Path

from headgate.spark.checkpoint import Checkpoint
from headgate.spark.file_system import Files
from headgate.spark.manifest import BlockRef, Manifest, OperatorState, Owner

OWNER = Owner("abcd1234", "f" * 8, ("q",))


class State:
    """A checkpoint folder as ticks leave it; every tick writes one block, and needs the last two."""

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self.root = root
        self.files = files or Files()
        self.checkpoint = self.reopened()
        self.files.write_text(f"{root}/headgate.json", OWNER.to_json())
        self.checkpoint._owner = OWNER
        self.manifest = Manifest()

    def reopened(self) -> Checkpoint:
        return Checkpoint(self.files, str(self.root))

    def tick(self) -> None:
        batch = self.manifest.batch_id + 1
        self.note_spark("offsets", batch)
        ref = self.write(self.checkpoint.block(batch, "q-in0"))
        recent = self.manifest.operators["q"].blocks[0][-1:] if batch else ()
        self.manifest = Manifest(batch, operators={"q": OperatorState(blocks=((*recent, ref),))})
        self.checkpoint.commit(self.manifest)
        self.note_spark("commits", batch)
        self.checkpoint.sweep(self.manifest)

    def write(self, path: str, rows: int = 3) -> BlockRef:
        folder = self.root / path
        folder.mkdir(parents=True)
        for name in ("_SUCCESS", "part-0.parquet", "part-1.parquet", ".part-0.parquet.crc"):
            (folder / name).write_text(f"{path}/{name}")
        return BlockRef(path, rows, 10 * rows, 0, 1)

    def note_spark(self, kind: str, batch: int) -> None:
        if kind == "offsets":
            self.note("spark/metadata", '{"id":"1"}')
            self.note(f"spark/sources/s/{batch}", f'v1\n{{"path":"file:///{batch}.csv"}}')
            self.note(f"spark/offsets/{batch}", f'v2\n{{}}\ns:{{"logOffset":{batch}}}')
        else:
            self.note(f"spark/{kind}/{batch}", "v1\n{}")

    def note(self, name: str, text: str) -> None:
        """A file as Hadoop writes it to a local disk."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.with_name(f".{path.name}.crc").write_text("crc")

    def part(self, batch: int, number: int = 1) -> Path:
        return self.root / f"blocks/{batch:09d}/q-in0/part-{number}.parquet"

    def manifest_file(self, batch: int) -> Path:
        return self.root / f"manifests/{batch:09d}.json"

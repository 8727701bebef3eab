"""Random sequences of changes of a running system, and what each query must have found in the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession
from tests.oracle.brute_force import Aggregation, Query, Results, Select, Side, Stream, evaluate
from tests.oracle.files import stream_sql, write_relation, write_rows
from tests.oracle.random_queries import World, column, random_world
from tests.oracle.runs import PATIENT, found_rows

from headgate import Session
from headgate.session.handle import Run

# distinct queries of a sequence at most
_QUERIES = 12
TIMEOUT_S = 240
BEGUN = "begun"
"""The file that shows that a sequence has had its first tick."""


def seen_from(query: Query, start_us: int | None) -> Query:
    """The query over streams that begin at a timestamp."""
    if start_us is None:
        return query

    def begun(side: Side) -> Side:
        if not isinstance(side.source, Stream):
            return side
        tuples = [tuple_ for tuple_ in side.source.on_time() if tuple_.ts >= start_us]
        return replace(side, source=replace(side.source, arrivals=tuples))

    def branch(one: Select | Aggregation) -> Select | Aggregation:
        if isinstance(one, Select):
            return replace(one, sides=[begun(side) for side in one.sides])
        return replace(one, side=begun(one.side))

    return replace(query, branches=[branch(one) for one in query.branches])


@dataclass
class Version:
    """A version of a query that runs, or has run; ``number`` is that of its text.

    One that replaces the same text goes on with it: the results before are in ``earlier_folders``.
    """

    name: str
    number: int
    folder: str
    earlier_folders: list[str] = field(default_factory=list)
    start_us: int | None = None
    has_ended: bool = False
    is_paused: bool = False


@dataclass
class Journal:
    """What a process that goes on has to know of the one before it."""

    versions: list[Version] = field(default_factory=list)
    unused: list[int] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)
    files: int = 0
    folders: int = 0
    steps: list[str] = field(default_factory=list)

    @staticmethod
    def read(path: Path) -> Journal:
        found = json.loads(path.read_text())
        return Journal(**{**found, "versions": [Version(**version) for version in found["versions"]]})

    def write(self, path: Path) -> None:
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(path)


@dataclass
class System:
    """Streams of files that arrive bit by bit, and queries that come and go; all by one seed."""

    spark: SparkSession
    folder: Path
    seed: int

    def __post_init__(self) -> None:
        rng = Random(self.seed)
        self.rng = Random(rng.getrandbits(32))
        self.world: World = random_world(rng, _QUERIES, has_derived=rng.random() < 0.5)
        self.format = rng.choice(("csv", "json", "parquet"))
        # a derived stream begins with its first reader: these are there from the beginning to the end
        lasting = [
            Query(f"of_{stream.name}", [Select([Side(stream, "a")], [column("a", "v")])])
            for stream in self.world.derived
        ]
        self.texts = [*self.world.queries, *lasting]
        self.journal = Journal(
            unused=list(range(len(self.world.queries))),
            written=dict.fromkeys((stream.name for stream in self.world.streams), 0),
        )
        self.session = Session(self.spark)

    @property
    def run(self) -> Run:
        assert self.session.run is not None
        return self.session.run

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def alive(self) -> dict[str, Version]:
        return {version.name: version for version in self.journal.versions if not version.has_ended}

    def save(self) -> None:
        self.journal.write(self.folder / "journal.json")

    def begin(self) -> None:
        """Declare the streams and start with two queries."""
        for stream in self.world.streams:
            (self.folder / stream.name).mkdir(parents=True)
        write_relation(self.folder / "labels.parquet", self.world.relation)
        for _ in range(2):
            self.arrive()
        created = [self._new(f"q{number}", self._draw()) for number in range(2)]
        created += [self._new(q.name, n) for n, q in enumerate(self.texts) if q.name.startswith("of_")]
        self.session.execute(self._streams() + "".join(created))
        self.session.start(checkpoint=self.checkpoint)
        self.wait_for_tick()
        self.save()
        # a checkpoint without a tick tells of no queries
        (self.folder / BEGUN).touch()

    def _streams(self) -> str:
        options = {"idle_after": PATIENT, "maxFilesPerTrigger": 2}
        texts = [
            stream_sql(s, self.folder / s.name, self.format, self.world.timestamp_type, **options)
            for s in self.world.streams
        ]
        path = self.folder / "labels.parquet"
        texts.append(f"CREATE RELATION labels FROM parquet OPTIONS (path '{path}');")
        texts += [f"CREATE STREAM {stream.name} AS {stream.sql};" for stream in self.world.derived]
        return "".join(texts)

    def arrive(self, everything: bool = False) -> None:
        """A few more tuples of each stream; in the end all."""
        for stream in self.world.streams:
            begin = self.journal.written[stream.name]
            left = len(stream.arrivals) - begin
            number = left if everything else min(left, self.rng.randint(0, 8))
            if number:
                rows = [dict(one.row) for one in stream.arrivals[begin : begin + number]]
                draft = self.folder / "drafts" / stream.name / f"{self.journal.files:05d}.{self.format}"
                draft.parent.mkdir(parents=True, exist_ok=True)
                write_rows(draft, rows, self.format, self.world.timestamp_type)
                self.journal.files += 1
                self.journal.written[stream.name] += number
                self.save()
                self._deliver()

    def _deliver(self) -> None:
        """Let the files arrive that are in the journal: as a whole, and once, whoever is killed when."""
        for draft in sorted((self.folder / "drafts").glob("*/*")):
            if int(draft.stem) < self.journal.files:
                draft.rename(self.folder / draft.parent.name / draft.name)

    def _draw(self) -> int:
        return self.journal.unused.pop(self.rng.randrange(len(self.journal.unused)))

    def _new(self, name: str, number: int, create: str = "CREATE QUERY") -> str:
        """The statement of a new version, which is in the journal before it takes effect."""
        folder = f"{name}-{self.journal.folders}"
        self.journal.folders += 1
        earlier: list[str] = []
        before = self.alive.get(name)
        if before is not None and self.texts[before.number].sql == self.texts[number].sql:
            earlier = [*before.earlier_folders, before.folder]
        self.journal.versions.append(Version(name, number, folder, earlier))
        start = self.rng.choice(("", " WITH (start = 'log')", " WITH (start = 'now')"))
        path = self.folder / "out" / folder
        return f"{create} {name}{start} AS {self.texts[number].sql} INTO parquet OPTIONS (path '{path}');\n"

    def step(self) -> None:
        """One random change."""
        names = [name for name in self.alive if not name.startswith("of_")]
        kinds = ["wait", "restart", *["drop"] * (len(names) > 1), *["pause"] * 2 * bool(names)]
        if self.journal.unused:
            kinds += ["create"] * 3 + ["replace"] * 2 * bool(names)
        kind = self.rng.choice(kinds)
        self.journal.steps.append(kind)
        if kind == "wait":
            self.wait_for_tick()
        elif kind == "restart":
            self.run.stop()
            self.resume()
        elif kind == "create":
            self._execute(self._new(f"n{self.journal.folders}", self._draw()))
        elif kind == "replace":
            self._execute(self._new(self.rng.choice(names), self._draw(), "CREATE OR REPLACE QUERY"))
        elif kind == "drop":
            self._execute(f"DROP QUERY {self.rng.choice(names)}")
        else:
            name = self.rng.choice(names)
            self._execute(f"{'RESUME' if self.alive[name].is_paused else 'PAUSE'} QUERY {name}")

    def _execute(self, statement: str) -> None:
        self.save()
        self.session.execute(statement)
        self.settle()

    def settle(self) -> None:
        """Note what runs, by what the run itself says."""
        status, script = self.run.status().queries, self.session.script
        for version in self.journal.versions:
            if version.has_ended:
                continue
            # a version that never took effect has no results, and ends like one that did
            version.has_ended = f"/out/{version.folder}'" not in script
            if not version.has_ended:
                now = status[version.name]
                assert version.start_us in (None, now.start_us), "a start does not change"
                version.start_us, version.is_paused = now.start_us, now.is_paused
        assert set(self.alive) == set(status)
        self.save()

    def wait_for_tick(self) -> None:
        ticks = self.run.status().ticks
        while self.run.status().ticks == ticks and not self.run.wait(0.05):
            pass

    def resume(self, until_done: bool = False) -> None:
        """Let another session go on from the checkpoint."""
        self.session = Session(self.spark)
        self.session.restore(self.checkpoint)
        self.session.start(checkpoint=self.checkpoint, until_done=until_done)
        self.settle()

    def finish(self) -> None:
        """Let everything arrive, and all queries process all of it."""
        self.arrive(everything=True)
        for name, version in self.alive.items():
            if version.is_paused:
                self._execute(f"RESUME QUERY {name}")
        self.run.stop()
        self.resume(until_done=True)
        assert self.run.wait(TIMEOUT_S), "not done in time"

    def differences(self) -> Iterator[str]:
        """What is wrong: of a query that has ended, results may be missing, but none too many."""
        for version in self.journal.versions:
            query = seen_from(self.texts[version.number], version.start_us)
            expected, found = evaluate(query), self._found(version)
            missing, extra = Counter() if version.has_ended else expected - found, found - expected
            if missing or extra:
                yield (
                    f"seed {self.seed} ({', '.join(self.journal.steps)}): {version.folder} from "
                    f"{version.start_us}: {query.sql}\n"
                    f"  missing of {expected.total()}: {list(missing.items())[:4]}\n"
                    f"  too many of {found.total()}: {list(extra.items())[:4]}"
                )

    def _found(self, version: Version) -> Results:
        found: Results = Counter()
        for name in (*version.earlier_folders, version.folder):
            folder = self.folder / "out" / name
            if any(folder.glob("part-*")):
                found += found_rows(self.spark.read.parquet(str(folder)))
        return found


def random_sequence(spark: SparkSession, folder: Path, seed: int, steps: int) -> list[str]:
    """Run a random sequence of changes, begun by this process or an earlier one; what is wrong in the end."""
    system = System(spark, folder, seed)
    try:
        if (folder / BEGUN).exists():
            system.journal = Journal.read(folder / "journal.json")
            # other changes than those of the process before
            system.rng.seed(f"{seed} {len(system.journal.steps)} {system.journal.files}")
            system.journal.steps.append("killed")
            system._deliver()
            system.resume()
        else:
            system.begin()
        while len(system.journal.steps) < steps:
            system.arrive()
            system.step()
        system.finish()
    except Exception as error:
        raise AssertionError(f"seed {seed}, {', '.join(system.journal.steps)}: {error}") from error
    finally:
        system.session.close()
    return list(system.differences())

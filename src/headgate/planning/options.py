"""Options of streams, stored relations and sinks, by format: which there are, and how they are spelt.

Spark ignores options that it does not know, so that a misspelt one would silently change results. Names of
Spark's options are those of its documentation; ``tests/spark/test_options.py`` compares them with Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headgate.cql.statement import Setting
from headgate.errors import QueryError, SetupError, closest, known_names

if TYPE_CHECKING:
    from headgate.workload.generated_stream import GeneratedStream

# an option of this prefix is handed to Spark without it, whether it is known here or not
_FOR_SPARK = "spark."
# more names than these are not listed in a message
_MOST_LISTED = 16
# older names, and those that the same thing has elsewhere
_OTHER_NAMES = {
    "slack": "watermark",
    "topics": "topic",
    "bootstrap.servers": "servers",
    "columns": "metadata",
}

# after a name, ? is for true or false, # for a whole number above 0
_OF_STREAMS = "timestamp watermark slack idle_after max_ahead"
_FILES = (
    "path pathGlobFilter recursiveFileLookup? ignoreCorruptFiles? ignoreMissingFiles? "
    "ignoreInvalidPartitionPaths? ignoredPathSegmentRegex archivePathFilter basePath timeZone"
)
_FILE_STREAMS = (
    "maxFilesPerTrigger# maxBytesPerTrigger# maxFileAge latestFirst? fileNameOnly? cleanSource "
    "sourceArchiveDir maxCachedFiles discardCachedInputRatio"
)
_STORED_FILES = "modifiedBefore modifiedAfter"
_TIMES = "dateFormat timestampFormat timestampNTZFormat timeFormat timeZone locale"
_TEXT_IN = (
    "encoding charset lineSep multiLine? mode columnNameOfCorruptRecord singleVariantColumn samplingRatio "
    f"enableDateTimeParsingFallback? {_TIMES}"
)
_CSV = (
    "sep delimiter quote escape charToEscapeQuoteEscaping header? nullValue emptyValue "
    "ignoreLeadingWhiteSpace? ignoreTrailingWhiteSpace?"
)
_READ = {
    "csv": f"{_TEXT_IN} {_CSV} comment inferSchema? preferDate? enforceSchema? nanValue positiveInf "
    "negativeInf maxColumns# maxCharsPerColumn unescapedQuoteHandling inputBufferSize# extension "
    "columnPruning?",
    "json": f"{_TEXT_IN} primitivesAsString? prefersDecimal? allowComments? allowUnquotedFieldNames? "
    "allowSingleQuotes? allowNumericLeadingZeros? allowNonNumericNumbers? "
    "allowBackslashEscapingAnyCharacter? allowUnquotedControlChars? dropFieldIfAllNull? inferTimestamp? "
    "explodeEmbeddedArray?",
    "parquet": "mergeSchema? datetimeRebaseMode int96RebaseMode",
    "orc": "mergeSchema?",
    "text": "wholetext? lineSep encoding",
}
_WRITTEN = {
    "csv": f"{_CSV} {_TIMES} encoding charset lineSep escapeQuotes? quoteAll? compression codec",
    "json": f"{_TIMES} encoding charset lineSep ignoreNullFields? pretty? sortKeys? "
    "writeNonAsciiCharacterAsCodePoint? compression",
    "parquet": "compression",
    "orc": "compression",
}
# of those that read a format, the options that also apply to a single value
_VALUES = (
    f"{_TIMES} {_CSV} enableDateTimeParsingFallback? preferDate? nanValue positiveInf negativeInf "
    "maxColumns# maxCharsPerColumn unescapedQuoteHandling allowComments? allowUnquotedFieldNames? "
    "allowSingleQuotes? allowNumericLeadingZeros? allowNonNumericNumbers? "
    "allowBackslashEscapingAnyCharacter? allowUnquotedControlChars?"
)
_VALUES_OUT = f"{_CSV} {_TIMES} escapeQuotes? quoteAll? ignoreNullFields?"
_STREAMED = {
    "kafka": f"servers topic format metadata schema {_VALUES} kafka.bootstrap.servers "
    "assign subscribe subscribePattern startingOffsets startingTimestamp "
    "startingOffsetsByTimestamp startingOffsetsByTimestampStrategy failOnDataLoss? "
    "maxOffsetsPerTrigger# minOffsetsPerTrigger# maxTriggerDelay minPartitions# maxRecordsPerPartition# "
    "groupIdPrefix includeHeaders? kafkaConsumer.pollTimeoutMs# fetchOffset.numRetries "
    "fetchOffset.retryIntervalMs",
    "rate": "rowsPerSecond# rampUpTime numPartitions#",
    "rate-micro-batch": "rowsPerBatch# numPartitions# startTimestamp advanceMillisPerBatch",
    "socket": "host port# includeTimestamp? numPartitions#",
}
_JDBC = (
    "url dbtable query driver user password partitionColumn lowerBound upperBound numPartitions# "
    "queryTimeout fetchsize customSchema sessionInitStatement prepareQuery hint pushDownPredicate? "
    "pushDownAggregate? pushDownLimit? pushDownOffset? pushDownTableSample? pushDownJoin? "
    "preferTimestampNTZ? preferTimestampNanos? keytab principal refreshKrb5Config? connectionProvider"
)
_ANY_SINK = "timestamp mode key"
_FILE_SINK = f"path maxRecordsPerFile# partitionBy {_ANY_SINK}"
_SINKS = {
    **{name: f"{_FILE_SINK} {own}" for name, own in _WRITTEN.items()},
    "memory": f"maxRecordsPerFile# {_ANY_SINK} {_WRITTEN['parquet']}",
    "console": f"numRows# {_ANY_SINK}",
    "callback": f"function {_ANY_SINK}",
    "jdbc": f"url dbtable driver user password batchsize# numPartitions# queryTimeout {_ANY_SINK}",
    "kafka": f"servers topic format transactions? {_ANY_SINK} kafka.bootstrap.servers {_VALUES_OUT}",
    "noop": _ANY_SINK,
}
# settings of the libraries that read and write a format, which Spark hands on
_PREFIXES = {"kafka": "kafka.", "parquet": "parquet.", "orc": "orc.", "memory": "parquet."}
# formats of Headgate itself, whose options do not reach Spark
_OURS = ("burst", "nexmark", "console", "callback", "noop")


@dataclass(frozen=True)
class Options:
    """The options of a format in one role; ``of`` is how messages call what has them.

    ``known`` are names as they are documented, by name in lower case: Spark ignores case, and so do we.
    """

    of: str
    known: Mapping[str, str]
    flags: frozenset[str] = frozenset()
    counts: frozenset[str] = frozenset()
    prefix: str | None = None
    is_ours: bool = False
    is_open: bool = False
    """Whether it takes options of any name: those of a format that is not known."""

    def spelt(self, settings: Iterable[Setting]) -> dict[str, Setting]:
        """Settings by the documented names of their options; a QueryError at the first that is wrong."""
        found: dict[str, Setting] = {}
        for setting in settings:
            name = self._name(setting)
            if name.lower() in {taken.lower() for taken in found}:
                raise QueryError(f"OPTIONS has {name} twice; keep one of them", setting.key.span)
            self._check_value(name, setting)
            found[name] = setting
        return found

    def _name(self, setting: Setting) -> str:
        written, key = setting.key.text, setting.key.text.lower()
        if key in self.known:
            return self.known[key]
        if self.is_open or (self.prefix and key.startswith(self.prefix) and key != self.prefix):
            return written
        if key.startswith(_FOR_SPARK) and key != _FOR_SPARK and not self.is_ours:
            own = written[len(_FOR_SPARK) :]
            return self.known.get(own.lower(), own)
        raise QueryError(f"unknown option {written} of {self.of}; {self._advice(written)}", setting.key.span)

    def _advice(self, written: str) -> str:
        others = [name for name, meant in _OTHER_NAMES.items() if meant.lower() in self.known]
        close = closest(written, [*self.known.values(), *others])
        names = [name for name in self.known.values() if name not in _OTHER_NAMES]
        if close is not None:
            advice = f"did you mean {_OTHER_NAMES.get(close, close)}?"
        elif len(names) <= _MOST_LISTED:
            advice = f"known: {known_names(names)};"
        else:
            advice = "it is none of Headgate's, nor of those that Spark documents;"
        return advice.rstrip(";") if self.is_ours else f"{advice} spark.{written} hands it to Spark as it is"

    def _check_value(self, name: str, setting: Setting) -> None:
        value = setting.value.strip()
        if name in self.flags and value.lower() not in ("true", "false"):
            raise QueryError(f"{name} is true or false, not '{setting.value}'", setting.span)
        if name in self.counts and not re.fullmatch(r"0*[1-9][0-9]{0,17}", value):
            raise QueryError(f"{name} is a whole number of 1 or more, not '{setting.value}'", setting.span)


def _options(of: str, known_format: str, listed: str | None) -> Options:
    words = (listed or "").split()
    return Options(
        of,
        {word.rstrip("?#").lower(): word.rstrip("?#") for word in words},
        frozenset(word[:-1] for word in words if word.endswith("?")),
        frozenset(word[:-1] for word in words if word.endswith("#")),
        _PREFIXES.get(known_format),
        known_format in _OURS,
        listed is None,
    )


def stream_options(source_format: str) -> Options:
    """The options of a stream."""
    own = _read_options(source_format, _FILE_STREAMS)
    found = _options(f"a {source_format} stream", source_format, f"{_OF_STREAMS} {own or ''}")
    return replace(found, is_open=own is None)


def relation_options(source_format: str) -> Options:
    """The options of a stored relation."""
    own = _JDBC if source_format == "jdbc" else _read_options(source_format, _STORED_FILES)
    found = _options(f"a {source_format} relation", source_format, f"refresh {own or ''}")
    return replace(found, is_open=own is None)


def _read_options(source_format: str, of_files: str) -> str | None:
    if source_format in _READ:
        return f"{_FILES} {of_files} {_READ[source_format]}"
    if generated := _generated(source_format):
        return " ".join(generated.option_names())
    return _STREAMED.get(source_format)


def sink_options(sink_format: str) -> Options:
    """The options of a sink."""
    return _options(f"INTO {sink_format}", sink_format, _SINKS.get(sink_format))


def check_generated(source_format: str, settings: Mapping[str, Setting]) -> None:
    """Read the options of a generated stream, so that a wrong value is reported at its place."""
    generated = _generated(source_format)
    if generated is None:
        return
    values = {name: setting.value for name, setting in settings.items()}
    # each one beside those without which others have no meaning, and then all together
    cases = [({**generated.least_options, name: value}, settings[name]) for name, value in values.items()]
    for options, setting in (*cases, (values, next(iter(settings.values()), None))):
        try:
            generated.parse(options)
        except SetupError as error:
            raise QueryError(str(error), setting.span if setting else None) from None


def _generated(source_format: str) -> type[GeneratedStream] | None:
    # imported here: numbers and Arrow, which other formats do not need
    if source_format == "burst":
        from headgate.workload.packets import BurstSettings

        return BurstSettings
    if source_format == "nexmark":
        from headgate.workload.nexmark_stream import NexmarkSettings

        return NexmarkSettings
    return None

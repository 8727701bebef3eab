"""Spark's daemon of Python workers, with better manners: it is quiet when a run ends and its pipes close."""

from __future__ import annotations

from pyspark import daemon

from headgate.spark.worker import silence_broken_pipes

if __name__ == "__main__":
    silence_broken_pipes()
    daemon.manager()

"""Remembering what py4j looks up.

Every ``F.col`` makes py4j ask the JVM what ``org.apache.spark.sql.functions`` is, and then what ``col`` is;
the JVM searches all of its jars under each imported package first. The answers never change, and a tick
asks some thousand times.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JVMView  # type: ignore[import-untyped]


class _RememberingView(JVMView):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaClass):
            found.__class__ = _RememberingClass
            # found by plain attribute access from now on
            self.__dict__[name] = found
        return found


class _RememberingClass(JavaClass):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            self.__dict__[name] = found
        return found


def remember_lookups(jvm: Any) -> None:
    """Ask the JVM once for each class and each static method."""
    if type(jvm) is JVMView:
        jvm.__class__ = _RememberingView

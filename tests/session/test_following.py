"""Observers that come while a run is on."""

from __future__ import annotations

from typing import Any

from headgate.model.event import ProfilesLearnt, StreamCounts, TickCommitted
from headgate.session.following import Followers


def tick(number: int) -> TickCommitted:
    return TickCommitted(float(number), number, 0.1, {"s": StreamCounts(rows_in=10)}, {}, 0, 0, 0, {}, 0.1)


def test_one_that_comes_late_gets_the_last_events_and_the_counts_before_them() -> None:
    followers, seen = Followers(most_events=3), list[Any]()
    for number in range(5):
        followers(tick(number))
    assert followers.add(seen.append) == {"s": StreamCounts(rows_in=20)}
    followers(tick(5))
    followers(ProfilesLearnt(6.0))
    assert [event.batch_id for event in seen[:-1]] == [2, 3, 4, 5]
    assert isinstance(seen[-1], ProfilesLearnt)


def test_one_that_raises_or_leaves_is_called_no_more_and_others_are() -> None:
    followers, seen, calls = Followers(), list[Any](), list[int]()

    def fails(event: Any) -> None:
        calls.append(1)
        raise ValueError("no")

    def leaves(event: Any) -> None:
        calls.append(2)

    for observer in (fails, leaves, seen.append):
        followers.add(observer)
    followers(tick(0))
    followers.remove(leaves)
    followers(tick(1))
    assert calls == [1, 2] and len(seen) == 2

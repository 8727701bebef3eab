"""What a study says of its claims."""

from pathlib import Path

from headgate.experiments.study import Study


def study(**disagreements: str) -> Study:
    return Study("claims", Path(), lambda text: None, disagreements=disagreements)


def test_a_claim_that_fails_is_a_surprise() -> None:
    found = study()
    found.at_least("larger", 2, 1)
    assert [check.verdict for check in found.checks] == ["FAILED"]
    assert not found.ok


def test_a_known_disagreement_stays_in_the_report_and_is_no_surprise() -> None:
    found = study(larger="the paper counts otherwise")
    found.at_least("larger", 2, 1)
    assert [(check.verdict, check.disagreement) for check in found.checks] == [
        ("disagrees", "the paper counts otherwise")
    ]
    assert found.ok


def test_a_known_disagreement_that_holds_is_a_surprise() -> None:
    found = study(larger="the paper counts otherwise")
    found.at_least("larger", 2, 3)
    assert [check.verdict for check in found.checks] == ["HOLDS NOW"]
    assert not found.ok

"""The page of all studies."""

from pathlib import Path

from headgate.experiments.page import write_page
from headgate.experiments.study import Study


def test_a_page_has_verdicts_reasons_tables_and_figures_in_one_file(tmp_path: Path) -> None:
    known = {"larger": "the paper counts <otherwise>"}
    study = Study("claims", tmp_path / "figures", lambda text: None, disagreements=known)
    study.at_least("larger", 2, 1)
    study.equal("equal", 3, 4)
    study.tables["runs"] = {"first": {"peak_bytes": 12_345}, "second": {"mean_s": 0.5}}
    study.plot("line", "a line", "x", "y", {"one": ([0.0, 1.0], [1.0, 2.0])})
    page = tmp_path / "new" / "index.html"
    write_page([study], page)
    text = page.read_text()
    assert "disagrees" in text and "the paper counts &lt;otherwise&gt;" in text
    assert "FAILED" in text
    assert "peak bytes" in text and "12,345" in text and "mean s" in text
    assert "data:image/png;base64,iVBOR" in text

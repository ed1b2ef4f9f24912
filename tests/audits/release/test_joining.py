"""Runs joined by the worst: held to the plain order of statuses, over all mixtures."""

from dataclasses import replace
from itertools import product

import pytest

from memorisk.audits.release.gate import merge_files, worst_verdict
from memorisk.report.statements.statement import AuditStatement, Part, Released, Subject
from tests.report.statements.test_statement import audit, reason

WORST_FIRST = ("fail", "undecided", "pass")


def run(status: str, **changes) -> AuditStatement:
    return audit(status=status, reasons=(reason(f"because {status}"),), what_would_decide=("more",), **changes)


@pytest.mark.parametrize("statuses", [s for n in (1, 2, 3) for s in product((*WORST_FIRST, "not asked"), repeat=n)])
def test_the_worst_counts_and_no_question_is_no_pass(statuses: tuple[str, ...]) -> None:
    verdict = worst_verdict([run(status) for status in statuses])
    asked = [status for status in statuses if status != "not asked"]
    assert verdict.status == (min(asked, key=WORST_FIRST.index) if asked else "undecided")
    assert verdict.why
    assert (verdict.status == "pass") <= (set(asked) == {"pass"})
    assert any(one.code == "runs-pass-and-fail" for one in verdict.contradictions) == (
        {"pass", "fail"} <= set(statuses)
    )


def test_passes_on_different_training_data_are_no_pass() -> None:
    other = (Part(part="training", fingerprint="e" * 32, images=10, units=7),)
    verdict = worst_verdict([run("pass"), run("pass", data=other)])
    assert verdict.status == "undecided"
    assert "numbers of training images or patients differ" in verdict.contradictions[0].text
    assert verdict.why == tuple(one.text for one in verdict.contradictions)
    assert worst_verdict([run("fail"), run("pass", data=other)]).status == "fail"
    read = (replace(audit().data[0], fingerprint="e" * 32),)  # as many, at another size
    verdict = worst_verdict([run("pass"), run("pass", data=read)])
    assert verdict.status == "pass"
    assert "read otherwise" in verdict.contradictions[0].text


def test_a_doubt_about_the_same_files_is_named() -> None:
    verdict = worst_verdict([run("pass"), run("undecided")])
    assert "of the same files: one passes and one could not decide" in verdict.contradictions[0].text
    assert worst_verdict([run("pass"), run("undecided", subject=Subject(what="training"))]).contradictions == ()


def test_each_file_stands_once_with_all_its_runs() -> None:
    one = Released(
        what="images", form="folder", listing={}, sha256="0" * 64, files=2, bytes=None, pixels=None, audits=()
    )
    other = replace(one, sha256="1" * 64)
    found = merge_files([[one], [], [other, replace(one, bytes=5)]])
    assert [(f.sha256[0], f.audits, f.bytes) for f in found] == [("0", (0, 2), 5), ("1", (2,), None)]

"""The classifier audit's page says what the result holds, what it does not, and nothing that it may not."""

import copy
import html as html_text
import re

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.classifier.pages.audit import classifier_page
from memorisk.audits.classifier.pages.result_view import MOST_SHOWN, ResultView
from memorisk.audits.classifier.result import TRAINED_ELSEWHERE
from memorisk.report.columns import capitalized
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.report.statements.statement import run_headline
from tests.audits.classifier_results import HOSTILE, NAMES, TARGET, hostile_result, make_result
from tests.report.chromium import Chromium, find_chromium
from tests.report.test_page import Outline
from tests.thorough import thorough


@pytest.fixture(scope="module")
def browser(drawn):
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    with Chromium(path) as running:
        yield running


def page_text(result: Result, **options) -> str:
    """The page's words without its tags, single-spaced."""
    return words(render_page(classifier_page(result, **options)))


def words(html: str) -> str:
    bare = re.sub(r"<style>.*?</style>|<script>.*?</script>|<title>.*?</title>", "", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html_text.unescape(re.sub(r"<[^>]+>", " ", bare)).replace("\u00a0", " "))


@pytest.mark.parametrize(
    ("status", "headline", "symbol"),
    [("fail", "Not ready for release", "✕"), ("pass", "Passed", "✓"), ("undecided", "Could not be decided", "?")],
)
def test_verdict_comes_first_in_words_symbol_and_colour(status, headline, symbol):
    html = render_page(classifier_page(make_result(status=status)))
    main = html.split("<main", 1)[1]
    assert words(main.split("</h2>")[0]).strip().endswith(f"{symbol} {headline}")
    assert f'class="callout {status}"' in main.split("</h2>")[0]
    assert main.index(headline) < main.index("<nav")


def test_unknown_status_is_undecided():
    assert "Could not be decided" in page_text(make_result(status="great"))


def test_verdict_says_why_and_what_would_decide():
    result = make_result(status="undecided")
    text = page_text(result)
    for sentence in (*result.verdict["why"], *result.verdict["what_would_decide"], "This is not a pass"):
        assert capitalized(sentence) in text
    assert "What would decide it" in text


@pytest.mark.parametrize("status", ["pass", "fail", "undecided"])
def test_the_first_screen_says_what_would_have_been_noticed(status):
    first = words(render_page(classifier_page(make_result(status=status))).split("<nav")[0])
    told = "a single patient with a gap of 1.4 nats or more would have been noticed in at least four of five cases"
    assert (told in first.lower()) == (status != "pass")  # which says it among its reasons
    assert ("An unflagged patient may be remembered, too: a single" in first) == (status == "fail")
    assert ("simulated: 83 of 100, 79 to 86" in first) == (status != "pass")
    none = make_result(status="undecided", noticeable={"gap": None, "label": "a<b>", "notice": 2.0})
    first = words(render_page(classifier_page(none)).split("<nav")[0])
    assert "In class a<b> a single patient can go unnoticed, even if strongly remembered" in first


@pytest.mark.parametrize("status", ["pass", "fail", "undecided"])
def test_a_gate_that_is_looser_than_the_default_is_told_beside_it(status):
    result = make_result(status=status)

    def first(**rule):
        verdict = result.verdict | {"rule": result.verdict["rule"] | rule}
        return words(render_page(classifier_page(result.replace(verdict=verdict))).split("<nav")[0])

    notice = "a single patient must be noticed only from a gap of 3 nats on (--notice, by default 2)"
    attacks = "attacks may come up to AUC 0.7 (--attack-gate, by default 0.6)"
    assert f"It is looser than the default: {notice} and {attacks}." in first(notice=3.0, attack_gate=0.7)
    assert f"It is looser than the default: {attacks}." in first(attack_gate=0.7)
    assert f"It is looser than the default: {notice}." in first(notice=3.0, attack_gate=0.6)
    assert "looser" not in first(notice=1.0, attack_gate=0.55)


def test_no_rounding_carries_an_auc_to_the_gate():
    result = make_result(status="pass")
    near = result.attacks.assign(high=np.where(result.attacks["attack"] == "loss_threshold", 0.5998, 0.55))
    page = page_text(result.replace(attacks=near))
    assert ", 0.5998]" in page
    assert ", 0.600]" not in page


@pytest.mark.parametrize("status", ["fail", "undecided"])
def test_classes_that_are_not_tested_are_named_beside_what_would_have_been_noticed(status):
    result = make_result(("a", "b", "c"), status=status)
    tested = result.per_class.assign(room=[8.0, 1.9, np.nan], testable=[True, True, False], flagged=[3, 0, 0])
    tested = tested.assign(noticeable_gap=[1.4, np.inf, np.nan])
    page = render_page(classifier_page(result.replace(per_class=tested)))
    assert "A single patient can go unnoticed in 2 classes: b, c" in words(page.split("<nav")[0])
    table = page.split("Classes by mean memorization", 1)[1].split("</table>")[0]
    shown = {row.split()[0]: row for row in map(words, table.split("<tbody>")[1].split("</tr>")[:-1])}
    assert [shown[name].count("not tested") for name in "abc"] == [0, 1, 2]  # flagged; of c the noticeable gap, too
    assert "none" in shown["b"]
    every = result.replace(per_class=tested.assign(room=8.0))  # c has no list at a level that was asked for, only
    assert "Not tested" not in words(render_page(classifier_page(every)).split("<nav")[0])
    none = make_result(("a", "b", "c"), status=status, noticeable=None).replace(per_class=tested.assign(room=np.nan))
    assert "A single patient can go unnoticed in 3 classes" in words(
        render_page(classifier_page(none)).split("<nav")[0]
    )


@pytest.mark.parametrize("status", ["pass", "fail", "undecided"])
def test_the_first_screen_counts_the_images_that_every_model_saw(status):
    def first(**more):
        return words(render_page(classifier_page(make_result(status=status, **more))).split("<nav")[0])

    told = "1,400 images that every model was trained on are not scored: this says nothing of what is remembered of"
    assert f"{told} them." in first(n_train=1400)
    assert "not scored" not in first(n_train=0)
    assert "not scored" not in first(n_train=None)


def test_a_list_at_another_level_is_told_from_the_verdicts_own():
    result = make_result(status="fail", level_q=0.001, correction="bh")
    table = result.per_class.assign(verdict_flagged=[7, *[0] * (len(result.per_class) - 1)])
    result = result.replace(per_class=table, per_group=result.per_group.assign(flagged=False))
    page = page_text(result)
    told = "shown, at level 0.001, holds 0 patients; the verdict rests on a list of its own, at level 0.1"
    assert f"{told} with correction bh, which holds 7 patients." in page
    assert "0 at level 0.001; 7 on the verdict's list, at level 0.1" in page.split("The question, and")[0]
    assert "7 patients are flagged" in page
    assert "No patient is flagged at level 0.001. In classes" in page
    by = page_text(result.replace(summary=result.summary | {"level_q": 0.1, "correction": "by"}))
    assert "shown, with correction by, holds 0 patients" in by
    assert "The list that is shown" not in page_text(result.replace(summary=result.summary | {"level_q": 0.1}))


def test_many_reasons_are_folded_but_none_is_lost():
    why = [f"class {i}: a reason" for i in range(30)]
    result = make_result(status="undecided")
    html = render_page(classifier_page(result.replace(verdict=result.verdict | {"why": why})))
    assert all(capitalized(reason) in html for reason in why)
    assert "Why (30)" in html.split("<nav")[0]


def test_a_fail_counts_what_it_rests_on():
    result = make_result()
    flagged = int(result.per_group["flagged"].sum())
    above = int((result.per_class["low"] > 0.3).sum())
    text = page_text(result)
    assert f"{flagged} patients are flagged as remembered" in text
    assert (f"{above} class is surely above the gate" in text) == (above == 1)


def test_required_wording_with_the_numbers_of_this_audit():
    text = page_text(make_result(n_trained_on=1234.0, level_q=0.05))
    required = (
        "Flagged: its loss gap exceeds what retraining and the other canaries do to unseen images of its class; at "
        "most 5 % of the flagged are expected to be such noise. It concerns models trained on 1,234 "
        "images by this recipe, not directly the released one, and not what an attacker without the twin can see: "
        "for that read the attack AUC."
    )
    assert text.count(required) == 2
    without = make_result(design="matched", n_train=1000, n_canary=300, n_trained_on=None)
    assert "models trained on 1,150 images" in page_text(without)
    assert "less than the full data, and only for the canary part: |T|+|C|/2 images each" in page_text(without)
    paper = make_result(design="paper", protocol="paper", n_train=1000, n_canary=300, n_trained_on=None)
    assert "models trained on 1,300 images" in page_text(paper)
    assert "only for the canary part: |T|+|C| images each" in page_text(paper)


def test_a_patient_who_is_flagged_in_two_classes_counts_once():
    result = make_result(status="fail")
    rows = result.per_group.iloc[:2].assign(group="P-77", flagged=True)
    assert rows["label"].nunique() == 1
    rows["label"] = ["a", "b"]
    others = result.per_group.iloc[2:].assign(flagged=False)
    table = result.per_class.assign(verdict_flagged=[1, 1, *[0] * (len(result.per_class) - 2)])
    twice = result.replace(per_class=table, per_group=pd.concat([rows, others]))
    text = page_text(twice)
    assert "1 patient is flagged as remembered" in text
    assert "2 patients flagged" not in text
    assert "The list has 2 rows: 1 row repeats one that is flagged in another class, too." in text


def test_what_was_not_covered():
    result = make_result(
        labels=("a", "b", "c", "d", "e", "f", "g"), n_validation=7, n_skipped=3, without_partner_images=2
    )
    assert not result.per_class["testable"].all()
    text = page_text(result)
    assert "53 images and 20 patients were not scored" in text  # beside seven of the validation part, told apart
    assert "7 images were set aside for choosing models" in text
    assert "Not auditable , too small to be divided: too small a class ." in text
    for label in result.per_class.loc[~result.per_class["testable"], "label"]:
        assert re.search(rf"Cannot be tested[^.]*\b{label}\b", text)
    assert "56.5 % fewer than the 460 of the full set" in text  # 1 - 200/460
    reason = "cannot be tested: the smallest list is 14, the class has 5 scored"
    assert text.count(reason) == 1
    for sentence in ("7 images were set aside", "3 images could not be read", "2 images found no comparable partner"):
        assert sentence in text


def test_class_table_holds_every_class_with_its_interval():
    result = make_result()
    html = render_page(classifier_page(result))
    table = html.split("Classes by mean memorization", 1)[1].split("</table>")[0]
    bodies = [words(row) for row in table.split("<tbody>")[1].split("</tr>")[:-1]]
    ordered = result.per_class.sort_values("mean", ascending=False)
    assert len(bodies) == len(ordered)
    for shown, row in zip(bodies, ordered.to_dict("records"), strict=True):
        limits = f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]".replace("-", "−")
        assert shown.strip().startswith(f"{row['label']} {limits} {row['tier']}")


def test_the_rarest_class_beside_the_most_memorized_one():
    pair = {"label_rarest": "a", "label_top": "b", "n_rarest": 20, "mean_rarest": 0.12, "difference": 0.66}
    sure = page_text(make_result(rarest_vs_top=pair | {"low": 0.3, "high": 1.0}))
    assert re.search(r"rarest class, a \(20 images, mean M 0\.120\), is not the most memorized; b is", sure)
    assert "differ by 0.660 (95 % interval 0.300 to 1.000), not corrected for the choice" in sure
    turned = page_text(make_result(rarest_vs_top=pair | {"difference": -0.66, "low": -1.0, "high": -0.3}))
    assert "differ by 0.660 (95 % interval 0.300 to 1.000), not corrected for the choice" in turned
    unsure = page_text(make_result(rarest_vs_top=pair | {"low": -0.1, "high": 1.4}))
    assert "(95 % interval −0.100 to 1.400), which chance may explain" in unsure
    assert "also the most memorized" in page_text(make_result(rarest_vs_top=pair | {"label_top": "a"}))


def test_attacks_are_ordered_and_the_control_is_marked_last():
    html = render_page(classifier_page(make_result()))
    table = html.split("Attacks over all classes", 1)[1].split("</table>")[0]
    names = re.findall(r'<th scope="row"><bdi>(.*?)</bdi>', table)
    assert names == ["LiRA (offline)", "M as attack", "Loss threshold", "Independent loss (control)"]
    assert "Found at 1\N{NO-BREAK SPACE}% false positives" in table
    assert "Found at 0.1" not in table, "a column of nothing is not shown"
    assert "What is found at 0.1 % false positives cannot be measured here" in words(html)
    assert "The control behaves" in words(html)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.55, 0.65, "The control fails"), (0.4, 0.6, "The control behaves"), (np.nan, np.nan, "could not be measured")],
)
def test_a_control_that_works_is_a_warning(low, high, said):
    result = make_result()
    result.attacks.loc[result.attacks["control"], ["low", "high"]] = [low, high]
    text = page_text(result)
    assert [s for s in ("The control fails", "The control behaves", "could not be measured") if s in text] == [said]


def test_failed_prerequisites_leave_no_p_values_and_say_so():
    result = make_result()
    per_group = result.per_group.assign(p_value=np.nan, adjusted=np.nan, flagged=False)
    why = "no p-values: the given split is not known to be random by group"
    per_class = result.per_class.assign(testable=False, why_not=why, flagged=0)
    text = page_text(result.replace(per_group=per_group, per_class=per_class))
    assert text.count("No p-values are given, since what they rest on does not hold") == 2
    assert why in text
    assert "No patient is flagged." not in text
    assert "p-values of all patients" not in text


def test_the_check_of_the_null_is_told():
    result = make_result()
    p = np.array([0.5, 0.03, 0.9, np.nan, 0.2])
    held = page_text(result.replace(per_class=result.per_class.assign(prerequisite_p=p)))
    said = "look alike in the canary and the test part (smallest p over classes, corrected for their number: 0.030; a "
    assert said in held
    p[2] = 0.0004
    broken = page_text(result.replace(per_class=result.per_class.assign(prerequisite_p=p)))
    assert re.search(r"Unseen canaries do not look like test images in +keratosis +\(smallest p[^)]*: 4\.0e−4;", broken)


def test_the_correction_that_ran_is_named():
    assert "Benjamini-Yekutieli on the classes, then within them" in page_text(make_result(correction="by"))
    assert "Benjamini-Hochberg on the classes, then within them" in page_text(make_result())


def test_nobody_flagged_is_not_called_nobody_remembered():
    result = make_result()
    text = page_text(result.replace(per_group=result.per_group.assign(flagged=False)))
    assert "No patient is flagged. In classes that cannot be tested none could have been." in text


def test_images_without_patients_are_called_images():
    result = make_result(groups_of=1)
    text = page_text(result.replace(summary=result.summary | {"n_groups": result.summary["n_images"]}))
    assert "Images flagged" in text
    assert text.count("Images scored") == 1
    assert "patient is flagged" not in text
    assert "each image counts as its own patient" in text


def test_placebo_is_told_or_its_absence_is():
    assert "5.1 % of the p-values were at most 0.05" in page_text(make_result())
    assert "In 1 of 20 repeats at least one was flagged" in page_text(make_result())
    assert "No placebo was run with this audit" in page_text(make_result(placebo=None))
    assert "--placebo adds one of these very images" in page_text(make_result(placebo=None))


@pytest.mark.parametrize("audit", ["generator", "losses"])
def test_audits_without_a_placebo_name_none_and_generators_have_no_published_question(audit):
    of_scale = {"scale": "spreads"} if audit == "generator" else {"model": TRAINED_ELSEWHERE}
    result = make_result(placebo=None, **of_scale)
    kind = "generator" if audit == "generator" else "classifier"
    text = page_text(result.replace(verdict=result.verdict | {"audit": kind}))
    assert "--placebo" not in text
    assert "No placebo" not in text
    assert "it rests on placebos, whole audits in which there was nothing to find. The verdict rests on" in text
    assert ("published question" in text) == (audit == "losses")


def test_losses_of_a_given_generator_are_compared_by_their_difference():
    text = page_text(make_result(target=TARGET, scale="spreads"))
    beside = TARGET["replication"]["loss"]
    assert f"Test loss less the mean of audited models {beside['target'] - beside['twins']:.3f} SD;" in text.replace(
        "\N{MINUS SIGN}", "-"
    )


def test_the_very_model_has_its_own_section_when_it_was_scored():
    text = page_text(make_result(target=TARGET))
    assert "The very model is another model than the audited ones" in text
    assert "Loss on what it was trained on 0.011; one more audited model would lie between 0.120 and 0.310." in text
    assert "so that it may fail, but cannot pass" in text
    assert "The control behaves: the attack that cannot work has AUC 0.51" in text
    assert "Attacks on the very model, class by class" in text
    assert "over patients; the model was trained once" in text
    assert "Test loss 0.410; one more audited model would lie between 0.440 and 0.600." in text
    assert "0.660 [0.600, 0.720]" in text
    assert "The very model" not in page_text(make_result())


def test_the_models_are_compared_with_what_the_target_saw():
    text = page_text(make_result(target=TARGET | {"n_members": 250}))
    assert "20.0 % fewer than the 250 that the model to be released saw" in text  # 200 each


def test_a_patient_flagged_in_two_classes_counts_once_and_is_named_as_such():
    result = make_result()
    groups = result.per_group.copy()
    flagged = groups.loc[groups["flagged"]].iloc[[0]]
    other = next(label for label in NAMES if label != flagged["label"].iloc[0])
    twice = pd.concat([groups, flagged.assign(label=other)], ignore_index=True)
    text = page_text(result.replace(per_group=twice))
    assert "1 of them in more than one class" in text
    assert "1 of them in more than one class" in page_text(result.replace(per_group=twice), redact=True)
    assert "in more than one class" not in page_text(result)


def test_pictures_are_those_of_flagged_patients_and_of_the_most_memorized_images():
    result = make_result()
    top = result.per_image.sort_values("M", ascending=False, kind="stable")["image"].tolist()
    pixels = {i: np.full((4, 4, 3), 7, dtype=np.uint8) for i in top[:15]}
    without = render_page(classifier_page(result))
    assert "data:image" not in without.split("<body>")[1]
    assert "Holds no images." in without
    pictured = render_page(classifier_page(result, pictures=pixels))
    lead, rest = pictured.split("<nav")
    assert "Holds images." in lead
    at_top = {*ResultView.of(result, redact=False).first_images().values()} & {*top[:12]}
    assert at_top
    assert (lead.count("<img"), rest.count("<img")) == (MOST_SHOWN, 12 - len(at_top))
    assert rest.count("picture at the top of this page") == len(at_top)
    text = page_text(result, pictures=pixels)
    assert all(i in text for i in top[:12])


def test_redaction_leaves_no_id_and_no_picture_anywhere():
    result = make_result(notes=["image-0003 was twice in the folder", "patient-0007: see image-0021"])
    result = result.replace(verdict=result.verdict | {"why": ["patient-0001 is flagged"]})
    ids = {*result.per_image["image"], *result.per_image["group"]}
    pixels = {i: np.zeros((4, 4, 3), dtype=np.uint8) for i in result.per_image["image"]}
    open_page = render_page(classifier_page(result, pictures=pixels))
    assert sum(i in open_page for i in ids) > 12
    redacted = render_page(classifier_page(result, pictures=pixels, redact=True))
    assert [i for i in ids if i in redacted] == []
    assert "data:image" not in redacted.split("<body>")[1]
    text = words(redacted)
    flagged = int(result.per_group["flagged"].sum())
    assert f"Patients flagged {flagged}" in text
    assert len(re.findall(r"\[redacted\]", text)) == 4
    assert f"Patients scored {len(set(result.per_group['group']))}" in text
    assert "handle it as personal data" not in text


def test_same_result_same_bytes():
    assert render_page(classifier_page(make_result())) == render_page(classifier_page(make_result()))


def test_page_survives_saving_and_loading(tmp_path):
    result = hostile_result()
    result.save(tmp_path)
    assert render_page(classifier_page(result)) == render_page(classifier_page(Result.load(tmp_path)))


@pytest.mark.thorough
def test_every_key_and_column_may_be_absent():
    result = make_result(images=60)
    whole = render_page(classifier_page(result))
    for key in result.summary:
        less = {k: v for k, v in result.summary.items() if k != key}
        Outline(render_page(classifier_page(result.replace(summary=less))))
    for key in ("status", "gate", "why", "what_would_decide"):
        less = {k: v for k, v in result.verdict.items() if k != key}
        Outline(render_page(classifier_page(result.replace(verdict=less))))
    for name in ("per_image", "per_group", "per_class", "attacks"):
        table = getattr(result, name)
        for column in table.columns:
            Outline(render_page(classifier_page(result.replace(**{name: table.drop(columns=column)}))))
        empty = result.replace(**{name: table.head(0)})
        assert render_page(classifier_page(empty)) != whole
        Outline(render_page(classifier_page(empty)))


def test_an_empty_result_renders_as_undecided():
    text = page_text(Result())
    assert "Could not be decided" in text
    assert "nan" not in text.lower().split()
    assert "None" not in text.replace("None.", "")


@pytest.mark.parametrize("value", [None, *map(thorough, ("text", 3, [], {}, [1, 2], {"a": None}))])
def test_summary_values_of_another_shape_do_not_break_the_page(value):
    result = make_result(images=60, target=TARGET)
    structured = [k for k, v in result.summary.items() if isinstance(v, (list, dict))]
    for keys in (*([k] for k in structured), list(result.summary)):
        changed = copy.deepcopy(result.summary) | dict.fromkeys(keys, value)
        html = render_page(classifier_page(result.replace(summary=changed)))
        Outline(html)
        assert run_headline(result.status) in html


def test_very_many_patients_stay_a_page_of_some_size():
    result = make_result()
    n = 20_000
    many = pd.DataFrame({"label": "a", "group": [f"p{i}" for i in range(n)], "n_images": 1, "M": np.arange(n) / n})
    many = many.assign(M_mean=0.0, n_seeds=8, p_value=0.001, adjusted=0.001, flagged=True)
    html = render_page(classifier_page(result.replace(per_group=many)))
    assert len(html) < 1_000_000
    assert "19,500 further rows are not shown here" in words(html)


@pytest.mark.thorough
@pytest.mark.browser
@pytest.mark.parametrize("status", ["fail", "undecided"])
def test_hostile_run_in_a_browser(browser: Chromium, tmp_path, status):
    result = hostile_result(status=status)
    pixels = {i: np.zeros((4, 4, 1), dtype=np.uint8) for i in result.per_image["image"]}
    file = tmp_path / "report.html"
    file.write_text(render_page(classifier_page(result, pictures=pixels)), encoding="utf-8")
    for width, dark in ((1280, False), (390, True), (320, False)):
        browser.open(file, width=width, dark=dark)
        assert browser.evaluate("document.title") == "Audit of a classifier: skin"
        assert browser.requests() == [file.resolve().as_uri()]
        assert browser.complaints() == []
        assert browser.evaluate("document.scripts.length") == 1
        browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert browser.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [width, width]
    shown = browser.evaluate("document.body.textContent")
    assert "<script>document.title='hacked'</script>" in shown
    assert "49" not in re.findall(r"class (\S+)", shown)  # no template ran
    assert HOSTILE[1] in shown


@pytest.mark.thorough
@pytest.mark.browser
def test_print_has_the_verdict_and_the_last_section(browser: Chromium, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(render_page(classifier_page(make_result())), encoding="utf-8")
    browser.open(file, media="print")
    visible = "[...document.querySelectorAll('section h2')].filter(e => e.getClientRects().length).length"
    assert browser.evaluate(visible) == 11  # the verdict and ten sections
    browser.open(file)
    browser.pdf(tmp_path / "report.pdf")
    pages = re.findall(rb"/Type\s*/Page\b", (tmp_path / "report.pdf").read_bytes())
    assert 5 <= len(pages) <= 14

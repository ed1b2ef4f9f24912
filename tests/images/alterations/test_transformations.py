"""The registry of ways to copy: its streams are apart, its functions exist, and pages list what it has."""

from pathlib import Path

from memorisk.images.alterations.families import ALL_FAMILIES, FAMILIES, PLANTED, WITHOUT_FAMILY
from memorisk.images.alterations.plants import ALL_KINDS, IN_WORDS, PLANT_KINDS
from memorisk.images.alterations.transformations import PLACES, TRANSFORMATIONS

DOCS = Path(__file__).parents[3] / "docs"
PLANTS = [one.plant for one in TRANSFORMATIONS if one.plant]
COPY_FAMILIES = [one.family for one in TRANSFORMATIONS if one.family]
AUGMENTATIONS = [one.augmentation for one in TRANSFORMATIONS if one.augmentation]


def text(page: str) -> str:
    return " ".join((DOCS / page).read_text().split())


def test_each_form_has_a_name_and_a_stream_of_its_own() -> None:
    for forms in (PLANTS, COPY_FAMILIES, AUGMENTATIONS):
        assert len({form.name for form in forms}) == len({form.stream for form in forms}) == len(forms)
    assert PLACES not in {kind.stream for kind in PLANTS}
    assert len(set(IN_WORDS.values())) == len(ALL_KINDS)


def test_streams_are_those_of_every_run_before() -> None:
    kinds = "exact flipped rotated noised jpeg cropped pasted - inverted shifted toned resized posterised redrawn"
    assert {kind.name: kind.stream for kind in PLANTS} == {
        name: stream for stream, name in enumerate(f"{kinds} recoloured blended shrunken".split()) if name != "-"
    }
    families = "blur noise rotation brightness darkening contrast jpeg flipped cropped"
    assert {family.name: family.stream for family in COPY_FAMILIES} == {
        name: stream for stream, name in enumerate(families.split())
    }
    operations = "rotate flip blur noise brightness contrast jpeg"
    assert [one.name for one in sorted(AUGMENTATIONS, key=lambda one: one.stream)] == operations.split()


def test_each_form_has_its_function() -> None:
    for form in (*PLANTS, *AUGMENTATIONS, *(ALL_FAMILIES[name] for name in FAMILIES)):
        assert form.make.__name__ == form.name


def test_a_family_without_strengths_is_a_planted_kind() -> None:
    assert set(PLANTED) <= set(ALL_KINDS)
    assert "pasted" in WITHOUT_FAMILY


def test_pages_list_every_kind_and_every_family() -> None:
    synthetic, filters, benchmark = (text(page) for page in ("synthetic.md", "filter.md", "bench-reid.md"))
    required, _, further = synthetic.partition("**Power.**")[2].partition("The audit also tries")
    assert not [kind for kind in PLANT_KINDS if kind not in required]
    assert not [kind for kind in ALL_KINDS if kind not in PLANT_KINDS and kind not in further]
    assert not [name for name in ALL_FAMILIES if f"`{name}`" not in filters]
    assert f"all {sum(map(len, FAMILIES.values())) + len(PLANTED)} candidates" in filters
    for strengths in FAMILIES.values():
        assert ", ".join(f"{strength:g}" for strength in strengths) in benchmark

"""Near copies: few chance pairs whatever the kind of images, copies found, real sets whose copies are known."""

import io
from collections import Counter

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageFilter
from scipy import stats
from scipy.ndimage import gaussian_filter

from memorisk.images.copies import near_copies as near_copies_module
from memorisk.images.copies.details import fine_rule, fit_whitening, other_positions
from memorisk.images.copies.duplicates import closest_between_groups, thumbnail
from memorisk.images.copies.near_copies import copy_rule, near_copies, near_copies_between
from memorisk.images.readers.registry import read_image
from memorisk.statistics.copies.pairs_of_people import EXPECTED_PAIRS, chance_threshold, tail_depth
from tests.images.kinds import KINDS, blurred, coloured, fan, grey, noisy, paler, people, two_views
from tests.thorough import thorough

N = 60


def small_of(images):
    return np.stack([thumbnail(image) for image in images])


@pytest.mark.thorough
def test_chance_makes_no_more_pairs_than_it_says_of_any_kind_of_images():
    """Sets in which nobody is in two images: every pair above the threshold is chance's."""
    sets, found = 0, Counter()
    for kind in KINDS:
        for seed in range(3):
            small = small_of(people(kind, N, seed))
            vectors = fit_whitening(small).table(small)
            closest = closest_between_groups(vectors, np.arange(N), tail_depth(N) + 1)
            sets += 1
            for expected in (EXPECTED_PAIRS, 1.0):
                threshold = chance_threshold(closest.similarity, N, expected=expected).similarity
                found[expected] += 0 if threshold is None else int((closest.similarity >= threshold).sum())
    for expected, pairs in found.items():
        assert pairs <= stats.poisson.ppf(0.999, sets * expected)


@pytest.mark.parametrize("kind", [grey, blurred, coloured, fan, two_views, noisy])
def test_copies_under_other_ids_are_found_and_confirmed(kind):
    images = people(kind, N, 7)
    images += [paler(image) for image in images[:3]]
    small = small_of(images)
    rule = copy_rule(small, np.arange(len(images)), images.__getitem__)
    found = near_copies(small, rule, images.__getitem__)
    assert sorted(found.pairs) == [(i, N + i) for i in range(3)]
    assert (np.diff(found.similarity) <= 0).all()
    assert found.n_pairs >= 3
    assert rule.chance.apart <= 3


def test_two_sets_by_the_definition_whatever_the_blocks():
    real, made = people(grey, N, 0), people(grey, 20, 1)
    made[3], made[8] = paler(real[5])[:, ::-1], paler(real[9])
    small, other = small_of(real), small_of(made)
    rule = copy_rule(small, np.arange(N), real.__getitem__, laid="mirrored")
    plain = rule.whitening.vectors(small) @ rule.whitening.vectors(other).T
    turned = rule.whitening.vectors(small) @ rule.whitening.vectors(other[:, :, ::-1]).T
    assert rule.chance.similarity is not None
    wanted = np.argwhere(np.maximum(plain, turned) >= rule.chance.similarity).tolist()
    for block in (7, 1024):
        best, found = near_copies_between(small, other, rule, real.__getitem__, made.__getitem__, block=block)
        similarity = np.maximum(plain, turned)
        np.testing.assert_array_equal(best.row, similarity.argmax(axis=1))
        np.testing.assert_allclose(best.similarity, similarity.max(axis=1), rtol=1e-4)
        np.testing.assert_array_equal(best.laid, (turned > plain)[np.arange(N), similarity.argmax(axis=1)])
        assert sorted(zip(found.first.tolist(), found.second.tolist(), strict=True)) == [tuple(p) for p in wanted]
        assert sorted(found.pairs) == [(5, 3), (9, 8)]
    upright = copy_rule(small, np.arange(N), real.__getitem__)
    assert near_copies_between(small, other, upright, real.__getitem__, made.__getitem__)[1].pairs == [(9, 8)]
    none, pairs = near_copies_between(small, other[:0], rule, real.__getitem__, made.__getitem__)
    assert none.row.tolist() == [-1] * N
    assert pairs.n_pairs == 0
    flat = np.full((1, 32, 32), 9, np.uint8)
    assert near_copies_between(flat, small, rule, real.__getitem__, real.__getitem__)[0].similarity.tolist() == [0.0]


def test_turned_copies_when_they_are_asked_for():
    images = people(grey, N, 3)
    images += [np.rot90(images[4]), images[6][::-1]]
    small = small_of(images)
    rules = [copy_rule(small, np.arange(N + 2), images.__getitem__, laid=laid) for laid in ("upright", "turned")]
    upright, turned = (near_copies(small, rule, images.__getitem__) for rule in rules)
    assert upright.pairs == []
    assert sorted(turned.pairs) == [(4, N), (6, N + 1)]
    assert len(other_positions(small, "turned")) == 7


def test_alike_in_the_thumbnail_is_not_confirmed_by_it():
    """Grain of two films at the stored resolution, which no thumbnail shows: one picture on both is not one image."""
    rng = np.random.default_rng(0)

    def grain():
        return np.kron(rng.choice([-20.0, 20.0], (64, 64)), [[1, -1], [-1, 1]])[..., None]

    films = grain() * 2, grain() * 2
    images = people(grey, N, 4)
    images.append(images[0])
    large = [gaussian_filter(np.kron(image, np.ones((2, 2, 1))), (3, 3, 0)) * 0.5 + 60 for image in images]
    large = [np.uint8(image + films[i % 2] + grain()) for i, image in enumerate(large[:-1])] + [
        np.uint8(large[-1] + films[1] + grain())
    ]
    small = small_of(large)
    rule = copy_rule(small, np.arange(N + 1), large.__getitem__)
    found = near_copies(small, rule, large.__getitem__)
    assert (found.first[0], found.second[0]) == (0, N)
    assert rule.fine.threshold is not None
    assert found.fine[0] < rule.fine.threshold
    assert found.pairs == []


def test_few_people_have_identical_images_alone():
    images = people(grey, 20, 5)
    images.append(paler(images[0]))
    small = small_of(images)
    rule = copy_rule(small, np.arange(21), images.__getitem__, ids_given=False)
    assert near_copies(small, rule, images.__getitem__).n_pairs == 0
    best, pairs = near_copies_between(small, small, rule, images.__getitem__, images.__getitem__)
    assert pairs.pairs == []
    assert best.row.tolist() == list(range(21))
    assert rule.words.startswith("Only identical pixels count as copies: 21 people are too few")
    assert rule.words.endswith("each counts as its own person's: several images of one person raise the threshold.")


def test_a_rule_is_learned_from_a_sample_of_the_people_where_there_are_many(monkeypatch):
    images = people(grey, 80, 9)
    small = small_of(images)
    monkeypatch.setattr(near_copies_module, "RULE_IMAGES", 60)
    rule = copy_rule(small, np.arange(80), images.__getitem__)
    again = copy_rule(small, np.arange(80), images.__getitem__, compared_with=1000)
    assert rule.chance.n_people == again.chance.n_people == 60
    assert rule.chance.n_pairs == 80 * 79 // 2
    assert again.chance.n_pairs == 80_000
    assert rule.chance.similarity is not None
    assert again.chance.similarity is not None
    assert again.chance.similarity > rule.chance.similarity


def test_images_of_one_person_are_no_chance_pairs():
    """Three views of each person: far above what people have in common, and not part of the tail."""
    base = people(grey, 40, 6)
    rng = np.random.default_rng(0)
    views = [np.uint8(np.clip(image + rng.normal(0, 25, image.shape), 0, 255)) for image in base for _ in range(3)]
    who = np.repeat(np.arange(40), 3)
    small = small_of(views)
    known = copy_rule(small, who, views.__getitem__)
    unknown = copy_rule(small, np.arange(120), views.__getitem__, ids_given=False)
    assert known.chance.n_people == 40
    assert known.chance.similarity is not None
    assert known.chance.apart == 0
    assert unknown.chance.similarity is None or unknown.chance.similarity > known.chance.similarity


def test_the_fine_threshold_is_the_order_statistic_of_pairs_of_people():
    images = people(grey, 80, 8)
    pairs = [(2 * i, 2 * i + 1) for i in range(40)]
    rule = fine_rule(pairs, images.__getitem__, "upright")
    null = rule.similarity(pairs, images.__getitem__, images.__getitem__, "upright")
    assert rule.threshold == max(np.sort(null)[-2], 0)  # floor(0.05 * 41) = 2
    assert rule.side == 64
    assert rule.level == 2 / 41
    few = fine_rule(pairs[:9], images.__getitem__, "upright")
    assert few.level == 0.1
    assert few.threshold == max(few.similarity(pairs[:9], images.__getitem__, images.__getitem__, "upright").max(), 0)
    tiny = [image[::2, ::2] for image in images]
    assert fine_rule(pairs, tiny.__getitem__, "upright").threshold is None
    assert fine_rule([], images.__getitem__, "upright").threshold is None


def changed(image, how):
    picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    if how == "jpeg":
        stream = io.BytesIO()
        picture.save(stream, "JPEG", quality=50)
        picture = Image.open(stream)
    elif how == "half":
        picture = picture.resize((picture.width // 2, picture.height // 2), Image.Resampling.BILINEAR)
    elif how == "blur":
        picture = picture.filter(ImageFilter.GaussianBlur(1))
    else:
        picture = ImageEnhance.Contrast(picture).enhance(1.4)
    made = np.asarray(picture)
    return made if made.ndim == 3 else made[..., None]


def fan(height, width):
    """Where an ultrasound probe sees something; all images under it share a sharp edge."""
    y, x = np.mgrid[:height, :width] / (np.array([height, width])[:, None, None] - 1)
    return (np.abs(np.arctan2(x - 0.5, y + 0.15)) < 0.6) & (np.hypot(x - 0.5, y + 0.15) < 1.1) & (y > 0.08)


def real_set(shared_data, name, shape=None):
    """Files, whose they are, and a reader of rows, black outside a field where one is given."""
    if name == "eye_oct":
        files = sorted((shared_data / name).glob("*.jpg"))
    elif name == "nih":
        files = sorted((shared_data / "nih_cxr14_64" / "NIH1000").rglob("*.png"))
    else:
        files = sorted((shared_data / "ham10000_224" / "images").rglob("*.jpg"))[::4]
    whose = np.array([file.name.split("_")[0] if name != "ham" else file.name for file in files])

    def read(row):
        image = read_image(files[row])[..., :3]
        return image if shape is None else image * shape(*image.shape[:2])[..., None].astype(np.uint8)

    return files, whose, read


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "shape"), [("eye_oct", None), thorough("nih", None), thorough("ham", None), thorough("ham", fan)]
)
def test_real_sets_have_no_pair_of_two_people_but_their_known_copies(shared_data, name, shape):
    """Eyes: twelve pairs of files are equal and no other pair is called; X-rays and lesions: nobody is.

    Of copies of their images 95 % are found, though no two people are; also under a field that all images share.
    """
    files, whose, read = real_set(shared_data, name, shape)
    small = np.stack([thumbnail(read(row)) for row in range(len(files))])
    rule = copy_rule(small, whose, read)
    found = near_copies(small, rule, read)
    contents = [files[row].read_bytes() for row in range(len(files))]
    apart = [(a, b) for a, b in found.pairs if whose[a] != whose[b]]
    assert all(contents[a] == contents[b] for a, b in apart)
    assert len(apart) == (12 if name == "eye_oct" else 0)
    assert rule.chance.similarity is not None
    rows = range(0, len(files), 20)
    for how in ("jpeg", "half", "blur", "contrast"):
        copies = [changed(read(row), how) for row in rows]
        _, again = near_copies_between(
            small_of(copies), small[list(rows)], rule, copies.__getitem__, lambda k: read(rows[k])
        )
        assert len({(a, b) for a, b in again.pairs if a == b}) >= 0.95 * len(rows), how


@pytest.mark.thorough
def test_known_copies_of_ultrasounds(shared_data):
    """Of 780 scans without ids about a hundred pairs are one scan; none of those called is of two."""
    files = sorted(file for file in (shared_data / "busi_ultrasound").rglob("*.png") if "_mask" not in file.name)

    def read(row):
        return read_image(files[row])[..., :3]

    small = np.stack([thumbnail(read(row)) for row in range(len(files))])
    rule = copy_rule(small, np.arange(len(files)), read, ids_given=False)
    found = near_copies(small, rule, read)
    names = [file.stem for file in files]
    pairs = {frozenset((names[a], names[b])) for a, b in found.pairs}
    assert frozenset(("benign (433)", "malignant (145)")) in pairs
    assert 34 <= len(pairs) <= 135
    assert "each counts as its own person's" in rule.words

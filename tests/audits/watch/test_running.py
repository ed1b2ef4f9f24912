"""A watch of what a training leaves behind: folders of images, and runs of memorisk's own training."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from memorisk.audits.watch import run as running
from memorisk.audits.watch.drawn_images import image_folders
from memorisk.audits.watch.evaluations import EVALUATIONS_FILE
from memorisk.audits.watch.run import plan_watch, watch_training
from memorisk.cli.main import main
from memorisk.cli.show.generators import show_watch_within
from memorisk.cli.show.runs import show_outcome
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.runs.errors import InputError
from memorisk.runs.files import read_table

SETTINGS = {"images": 60, "looks": 3, "quality": "none", "detector": "pixels"}


def put(folder, images):
    """PNG files in a folder that has its name only when they are all there."""
    parts = folder.with_name(f".{folder.name}")
    parts.mkdir(parents=True)
    for number, image in enumerate(images):
        Image.fromarray(image).save(parts / f"{number:04}.png")
    parts.rename(folder)


@pytest.fixture(scope="module")
def real(tmp_path_factory, digits):
    """Folders of training and held-out images, by their arguments."""
    folder = tmp_path_factory.mktemp("real")
    held = [f"h{i}" for i in range(200)]
    put(folder / "train", digits[:300])
    (folder / "held").mkdir()
    for name, image in zip(held, digits[300:500], strict=True):
        Image.fromarray(image).save(folder / "held" / f"{name}.png")
    return {"train": str(folder / "train"), "held_out": str(folder / "held")}


def drawn(digits, share, n=60):
    """Images of a generator that copies a share."""
    k = round(share * n)
    return np.concatenate([digits[:k], digits[600 : 600 + n - k]])


class TestImageFolders:
    def test_every_step_is_looked_at_once_and_the_report_says_when_it_began(self, digits, real, tmp_path):
        run, out = tmp_path / "run", tmp_path / "out"
        for step, share in ((100, 0.0), (200, 0.9), (1000, 0.9)):
            put(run / f"samples_{step}", drawn(digits, share))
        plan = plan_watch(run, out=out, **real, **SETTINGS)
        assert plan.steps == (100, 200, 1000)
        assert plan.patients == {"training": 300, "held out": 200}
        assert not out.exists()
        found = watch_training(run, out=out, **real, **SETTINGS)
        assert [look.step for look in found.looks] == [100, 200, 1000]
        assert found.stop is not None
        assert found.stop.step == 200
        assert not (out / "stop.json").exists()  # nobody asked for one
        page = (out / "report.html").read_text()
        assert "audit of its own for the images of any earlier step" in page
        assert "Memorization was shown at step 200; earlier steps may have memorized, too" in page
        assert "no held-out images any more" in page
        assert page.count("<svg") == 1 + 2  # no FID, no loss; two on the first screen
        assert "0000.png" in page
        again = watch_training(run, out=out, redact=True, **real, **SETTINGS)
        assert [look.number for look in again.looks] == [1, 2, 3]
        assert "0000.png" not in (out / "report.html").read_text()

    def test_it_follows_until_it_is_over_waits_for_whole_folders_and_asks_to_stop(
        self, digits, real, tmp_path, monkeypatch
    ):
        run, out, seen = tmp_path / "run", tmp_path / "out", []
        put(run / "step-1", drawn(digits, 0.0))
        (run / "step-2").mkdir()

        def one_more(seconds):
            """What the training does meanwhile: an image a visit, then the rest, then its end."""
            seen.append(sorted(place.name for place in run.iterdir()))
            visit, images = len(seen), drawn(digits, 0.9)
            if visit <= 2:
                Image.fromarray(images[visit]).save(run / "step-2" / f"{visit:04}.png")
            elif visit == 3:
                shutil.rmtree(run / "step-2")
                put(run / "step-2", images)
            elif visit == 4:
                assert json.loads((out / "stop.json").read_text())["step"] == 2
                (run / "training.json").write_text("{}")

        monkeypatch.setattr(running.time, "sleep", one_more)
        told = []
        found = watch_training(run, out=out, follow=True, stop=True, on_look=told.append, **real, **SETTINGS)
        assert [look.step for look in told] == [1, 2]
        assert len(seen) == 4
        assert (found.stop or told[0]).step == 2
        assert read_table(out / EVALUATIONS_FILE)["n_images"].tolist() == [60, 60]

    def test_a_folder_of_another_content_is_looked_at_again(self, digits, real, tmp_path):
        run, out = tmp_path / "run", tmp_path / "out"
        put(run / "1", drawn(digits, 0.0))
        first = watch_training(run, out=out, **real, **SETTINGS).looks[0]
        shutil.rmtree(run / "1")
        put(run / "1", drawn(digits, 0.9))
        second = watch_training(run, out=out, **real, **SETTINGS).looks
        assert [look.number for look in second] == [2]
        assert second[0].share > first.share

    def test_fewer_images_than_asked_for_are_told(self, digits, real, tmp_path, capsys):
        for step, n in ((1, 60), (2, 50)):
            put(tmp_path / "run" / f"{step}", drawn(digits, 0.0)[:n])
        found = watch_training(tmp_path / "run", out=tmp_path / "out", **real, **SETTINGS)
        said = "1 look (the first at step 2) compared fewer images than the 60 that --images sets"
        said += "; the smallest number is 50."
        assert said in found.notes
        show_outcome(found, "watch", None, as_json=False)
        told = capsys.readouterr().out.replace("\n", " ")
        assert said in told
        page = (tmp_path / "out" / "report.html").read_text()
        assert said in page
        assert "a look compares 50 to 60 images" in page
        assert found.rule in told
        assert found.rule.startswith("The rule is share, which auto chose: ")

    def test_training_images_that_were_not_read_are_told(self, digits, real, tmp_path):
        put(tmp_path / "run" / "1", drawn(digits, 0.0))
        shutil.copytree(real["train"], tmp_path / "train")
        (tmp_path / "train" / "more.heic").write_bytes(b"\0\0\0\x18ftypheic")
        (tmp_path / "train" / "SOURCE.txt").write_text("where these come from")
        given = real | {"train": str(tmp_path / "train")}
        found = watch_training(tmp_path / "run", out=tmp_path / "out", **given, **SETTINGS)
        said = "1 file or image of the training set was not read: copies of these are not seen."
        assert said in found.notes
        assert said in (tmp_path / "out" / "report.html").read_text()

    def test_what_cannot_be_watched_is_refused_before_anything_is_written(self, digits, real, tmp_path):
        run, out = tmp_path / "run", tmp_path / "out"
        with pytest.raises(InputError, match="there is no folder"):
            watch_training(run, out=out, **real)
        run.mkdir()
        with pytest.raises(InputError, match="no folder whose name ends in the number"):
            watch_training(run, out=out, **real, **SETTINGS)
        with pytest.raises(InputError, match="is no run of train generator"):
            watch_training(run, out=out)
        put(run / "step-10", drawn(digits, 0.0))
        with pytest.raises(InputError, match="a watch needs held-out images"):
            watch_training(run, train=real["train"], out=out, **SETTINGS)
        put(run / "more-10", drawn(digits, 0.0))
        with pytest.raises(InputError, match="are both of step 10"):
            image_folders(run)
        assert not out.exists()


@pytest.fixture(scope="module")
def watched_run(tmp_path_factory):
    """A tiny training of memorisk that was watched from within, and its watch."""
    pytest.importorskip("diffusers")
    from memorisk.audits.watch.options import WatchSettings
    from memorisk.audits.watch.run import watch_within
    from memorisk.training.generators.command import train_generator

    out = tmp_path_factory.mktemp("run") / "g"
    how = {"steps": 4, "snapshot_every": 2, "batch_size": 8, "network": "tiny/4", "conditioned_on": "none"}
    looked = WatchSettings(images=16, sampling_steps=2, sampler="ddim", quality="none", detector="pixels")
    with watch_within("digits", out=out, watching=looked, **how) as watch:
        train_generator("digits", out=out, on_snapshot=watch, keep_snapshots=True, **how)
    return out, watch


class TestRuns:
    def test_from_within_and_afterwards_the_same_is_seen(self, watched_run, tmp_path):
        run, watch = watched_run
        assert [look.step for look in watch.looks] == [2, 4]
        assert watch.options.looks == 2
        later = watch_training(
            run, images=16, sampling_steps=2, quality="none", detector="pixels", out=tmp_path / "later"
        )
        assert not any(np.isnan(look.held_out_loss) for look in later.looks)  # from the run's history
        no_fid = dict.fromkeys(("fid", "fid_low", "fid_high", "fid_same_number", "fid_held_out"), 0.0)
        shown = [[replace(look, **no_fid) for look in looks] for looks in (watch.looks, later.looks)]
        assert shown[0] == shown[1]

    def test_people_of_an_earlier_training_are_told_to_be_not_looked_at(self, watched_run, tmp_path, capsys):
        """The second run knows none of the digits that its weights were trained on but by their hashes."""
        from memorisk.audits.watch.options import WatchSettings
        from memorisk.audits.watch.run import watch_within
        from memorisk.training.generators.command import train_generator

        put(tmp_path / "new", np.random.default_rng(0).integers(0, 256, (40, 8, 8), np.uint8))
        run, looked = (
            tmp_path / "g",
            WatchSettings(images=8, sampling_steps=2, quality="none", stop_on="never", detector="pixels"),
        )
        how = {"steps": 2, "snapshot_every": 2, "batch_size": 8, "conditioned_on": "none", "network": "tiny/4"}
        how |= {"weights": str(watched_run[0])}
        with watch_within(tmp_path / "new", out=run, watching=looked, **how) as watch:
            train_generator(tmp_path / "new", out=run, on_snapshot=watch, keep_snapshots=True, **how)
        n = len(set(watched_run[1].real.train.pixel_hashes))
        said = f"was trained on {n:,} images that this watch does not hold: copies of those are not found."
        show_watch_within(watch)
        assert said in capsys.readouterr().out.replace("\n", " ")
        later = watch_training(
            run, images=8, sampling_steps=2, quality="none", stop_on="never", detector="pixels", out=tmp_path / "later"
        )
        assert sum(said in note for note in later.notes) == 1
        for page in (run / "watch" / "report.html", tmp_path / "later" / "report.html"):
            assert page.read_text().count(said) == 1
            assert "Training patients that this watch does not cover" in page.read_text()
        assert watched_run[1].warnings == ()

    def test_the_watch_never_sees_the_test_part(self, watched_run):
        run, watch = watched_run
        parts = read_table(run / "manifest.parquet").groupby("split")["image"].agg(set)
        assert set(watch.real.train.manifest.images) == parts["training"]
        assert set(watch.real.held.manifest.images) == parts["validation"]
        assert len(parts["test"])

    def test_how_images_are_read_is_the_runs_matter(self, watched_run):
        with pytest.raises(InputError, match="size says how images are read"):
            watch_training(watched_run[0], size=8)
        with pytest.raises(InputError, match="train and held_out go together"):
            watch_training(watched_run[0], train="digits")

    def test_whom_the_generator_was_trained_on_is_not_held_out(self, watched_run, tmp_path):
        table = read_table(watched_run[0] / "manifest.parquet")
        for part in ("training", "test"):
            (tmp_path / part).mkdir()
        store = build_store(load_manifest("digits", ImageOptions()), ImageOptions())
        place = {image: row for row, image in enumerate(store.manifest.images)}
        for row in table.itertuples():
            if row.split != "validation":
                Image.fromarray(store.images[place[row.image]][..., 0]).save(tmp_path / row.split / f"{row.Index}.png")
        given = {"train": tmp_path / "test", "held_out": tmp_path / "training", "out": tmp_path / "out"}
        for call in (watch_training, plan_watch):
            with pytest.raises(InputError, match=r"trained or chosen on .* patients of the held-out images"):
                call(watched_run[0], **given, **SETTINGS)
        assert not (tmp_path / "out").exists()

    def test_other_images_than_the_run_had_are_refused(self, watched_run, tmp_path):
        run = tmp_path / "g"
        shutil.copytree(watched_run[0], run, ignore=shutil.ignore_patterns("watch"))
        settings = (run / "config.yaml").read_text().rpartition("#")[0]  # without their record, as of before
        (run / "config.yaml").write_text(settings.replace("data_hash: ", "data_hash: 0"))
        with pytest.raises(InputError, match="holds other images than"):
            watch_training(run)


class TestCommand:
    def test_exit_codes_and_json(self, digits, real, tmp_path, capsys):
        run = tmp_path / "run"
        put(run / "step-1", drawn(digits, 0.0))
        asked = ["watch", str(run), "--train", real["train"], "--held-out", real["held_out"], "--images", "60"]
        asked += ["--quality", "none", "--looks", "3", "--out", str(tmp_path / "out")]
        assert main([*asked, "--dry-run"]) == 0
        assert "training 300, held out 200" in capsys.readouterr().out
        assert main(asked) == 0
        assert "NO MEMORIZATION WAS SHOWN" in capsys.readouterr().out
        put(run / "step-2", drawn(digits, 0.9))
        assert main([*asked, "--json"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert told["stop"] == 2
        assert [look["step"] for look in told["looks"]] == [1, 2]
        assert main(asked) == 1
        assert "MEMORIZATION WAS SHOWN AT STEP 2; EARLIER STEPS MAY HAVE MEMORIZED, TOO" in capsys.readouterr().out

    def test_settings_go_round_by_a_file_and_wrong_ones_are_usage(self, digits, real, tmp_path, capsys):
        run = tmp_path / "run"
        put(run / "step-1", drawn(digits, 0.0))
        asked = ["watch", str(run), "--images", "60", "--stop-on", "test"]
        assert main([*asked, "--print-config"]) == 0
        printed = capsys.readouterr().out
        assert "stop_on: test" in printed
        file = tmp_path / "watch.yaml"
        file.write_text(printed)
        assert main(["watch", "--config", str(file), "--print-config"]) == 0
        assert capsys.readouterr().out == printed
        assert main([*asked, "--log-to", "x"]) == 2
        assert "--log-to is a folder for logs" in capsys.readouterr().err

    def test_a_training_hands_its_settings_on(self, tmp_path, capsys):
        asked = ["train", "generator", "digits", "--out", str(tmp_path / "g"), "--watch", "--watching.stop-on", "test"]
        assert main([*asked, "--print-config"]) == 0
        printed = capsys.readouterr().out
        assert "watch: true" in printed
        file = tmp_path / "train.yaml"
        file.write_text(printed)
        assert main(["train", "generator", "--config", str(file), "--print-config"]) == 0
        assert capsys.readouterr().out == printed
        few = ["--watching.looks", "40", "--watching.stop-on", "listed"]
        assert main([*asked[:6], *few]) == 2
        assert "stop_on listed needs 799 held-out patients" in capsys.readouterr().err.replace("--stop-on", "stop_on")
        assert not (tmp_path / "g").exists()

    def test_a_gan_takes_no_setting_of_diffusion_models(self, tmp_path, capsys):
        asked = [
            "train",
            "generator",
            "digits",
            "--out",
            str(tmp_path / "g"),
            "--kind",
            "gan",
            "--steps",
            "2",
            "--watch",
        ]
        assert main([*asked, "--watching.guidance", "2"]) == 2
        assert "is 2.0, and a GAN is not a diffusion model" in capsys.readouterr().err
        assert not (tmp_path / "g").exists()

    def test_a_training_says_what_its_watch_saw_and_would_see(self, tmp_path, capsys):
        pytest.importorskip("diffusers")
        how = ["--steps", "2", "--snapshot-every", "1", "--batch-size", "8", "--network", "tiny/4"]
        how += ["--conditioned-on", "none", "--watching.images", "16", "--watching.sampling-steps", "2"]
        asked = ["train", "generator", "digits", "--out", str(tmp_path / "g"), "--watch", *how]
        asked += ["--watching.sampler", "ddim", "--watching.quality", "none"]
        assert main([*asked, "--dry-run"]) == 0
        told = capsys.readouterr().out
        for said in (
            "watch, looks planned: 2",
            "watch, images a look: 16",
            "held out 184",
            "share, which auto chose: it",
        ):
            assert said in told
        assert main([*asked, "--dry-run", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["watch"]["looks"] == 2
        assert not (tmp_path / "g").exists()
        assert main(asked) == 0
        told = capsys.readouterr().out
        for said in ("watch: step 2: memorized", "watch: it did not stop the training", "watch: The rule is share"):
            assert said in told
        assert str(tmp_path / "g" / "watch" / "report.html") in told.replace("\n", "")

"""memorisk for a machine without internet: everything it needs, gathered elsewhere, checked and installed there.

    python recipes/offline_bundle.py build BUNDLE [--extras medical,dp] [--torch-index URL] [--weights NAME@default ...]
    python BUNDLE/offline_bundle.py check BUNDLE [--expect HASH]
    python BUNDLE/offline_bundle.py install BUNDLE VENV [--expect HASH]

`build` runs where there is internet, in a checkout of memorisk (or with --wheel, a released one): it downloads a wheel
of every library for one Python and one kind of machine, at the versions and with the hashes of the lock files, and the
weights that are named, and writes what it got into manifest.json (name, version, licence, bytes, source, SHA-256),
requirements.txt (exact versions and hashes) and SHA256SUMS. It prints the hash of SHA256SUMS: carry that another way
than the disk. `check` needs nothing but Python: it refuses a bundle in which a file is missing, added or changed, by
name. `install` checks, makes a virtual environment from the bundle alone, puts the weights beside it, and runs the
built-in audit once, in a network namespace without a network where the system allows one.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

SUMS, MANIFEST, LOCK, WHEELS, WEIGHTS = "SHA256SUMS", "manifest.json", "requirements.txt", "wheels", "weights"
OLDEST_GLIBC, NEWEST_GLIBC = 5, 40
SMOKE = ("audit", "classifier", "digits", "--models", "4", "--epochs", "2", "--fail-on", "never")
"""The built-in audit, too small to mean anything: it trains, measures and writes a report."""


class Refused(Exception):
    """What is wrong, in one line; nothing was installed."""


def main(words: list[str] | None = None) -> int:
    """Run a command; exit code 2 and one line where it is refused."""
    given = _parser().parse_args(words)
    try:
        if given.command == "build":
            print(f"carry this another way than the bundle: {build(given)}")
        elif given.command == "ask-hub":
            ask_hub(given.kind, given.base, given.tag)
        elif given.command == "check":
            print(f"{given.bundle}: {check(given.bundle, given.expect)} files are as they were when it was built")
        else:
            install(given.bundle, given.venv, given.expect, smoke=not given.no_smoke)
    except Refused as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def build(given: argparse.Namespace) -> str:
    """Gather a bundle.

    Args:
        given: The flags.

    Returns:
        SHA-256 of SHA256SUMS.

    Raises:
        Refused: The folder exists, pip cannot get a wheel, or weights cannot be had.
    """
    bundle: Path = given.bundle
    if bundle.exists() and any(bundle.iterdir()):
        raise Refused(f"{bundle} is not empty: name a new folder")
    (bundle / WHEELS).mkdir(parents=True, exist_ok=True)
    own = given.wheel or _own_wheel(bundle / WHEELS)
    if given.wheel:
        own = Path(shutil.copy2(given.wheel, bundle / WHEELS))
    locks = given.lock or _own_locks(given.extras)
    pins = locked(locks)
    sources = _download(own, bundle / WHEELS, given, pins)
    _hold_to_lock([wheel for wheel in sorted((bundle / WHEELS).glob("*.whl")) if wheel.name != own.name], pins, given)
    wheels = [_described(wheel, sources) for wheel in sorted((bundle / WHEELS).glob("*.whl"))]
    weights = [entry for name in given.weights for entry in fetch_weights(name, bundle / WEIGHTS)]
    shutil.copy2(__file__, bundle / "offline_bundle.py")
    target = {
        "python": given.python,
        "system": "Linux" if given.platform else platform.system(),
        "machine": _machine(given),
    }
    manifest = {"target": target, "extras": given.extras, "wheels": wheels, "weights": weights}
    (bundle / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    lock = [f"{w['name']}=={w['version']} --hash=sha256:{w['sha256']}" for w in wheels]
    (bundle / LOCK).write_text("\n".join(lock) + "\n", encoding="utf-8")
    sums = [f"{sha256(bundle / name)}  {name}" for name in sorted(_files(bundle))]
    (bundle / SUMS).write_text("\n".join(sums) + "\n", encoding="utf-8")
    size = sum(entry["bytes"] for entry in wheels + weights)
    print(f"{bundle}: {len(wheels)} wheels, {len(weights)} files of weights, {size / 1e9:.2f} GB")
    return sha256(bundle / SUMS)


def check(bundle: Path, expect: str | None = None) -> int:
    """Hold every file of a bundle to SHA256SUMS.

    Args:
        bundle: The folder.
        expect: SHA-256 of SHA256SUMS, if it came another way; without it, whoever changes a file can change the sums.

    Returns:
        The number of files.

    Raises:
        Refused: A file is missing, added, changed or a link; the first are named.
    """
    if not (bundle / SUMS).is_file():
        raise Refused(f"{bundle} is no bundle: it has no {SUMS}")
    if expect and sha256(bundle / SUMS) != expect.strip().lower():
        raise Refused(f"{bundle / SUMS} is not the file whose hash was given: the bundle is another, or was changed")
    listed: dict[str, str] = {}
    for line in _text(bundle / SUMS).splitlines():
        value, gap, name = line.partition("  ")
        if not gap or not re.fullmatch("[0-9a-f]{64}", value) or name in listed or ".." in Path(name).parts:
            raise Refused(f"{bundle / SUMS} is not what build writes: {line[:80]!r}")
        listed[name] = value
    there = set(_files(bundle)) - {SUMS}
    found = {
        "missing": sorted(set(listed) - there),
        "not of the bundle": sorted(there - set(listed)),
        "changed": sorted(
            n for n in there & set(listed) if (bundle / n).is_symlink() or sha256(bundle / n) != listed[n]
        ),
    }
    wrong = [f"{len(names)} {what} ({', '.join(names[:3])})" for what, names in found.items() if names]
    if wrong:
        raise Refused(f"{bundle}: {'; '.join(wrong)}: do not use it, copy the bundle anew")
    return len(listed)


def install(bundle: Path, venv: Path, expect: str | None = None, *, smoke: bool = True) -> None:
    """Make a virtual environment from a bundle, without an index.

    Args:
        bundle: The folder.
        venv: Folder of the environment; must not exist.
        expect: As for `check`.
        smoke: Run the built-in audit afterwards.

    Raises:
        Refused: The bundle is not whole, is for another Python or machine, or pip or the audit fails.
    """
    if venv.exists():
        raise Refused(f"{venv} exists: name a new folder")
    check(bundle, expect)
    here = {"python": _python(), "system": platform.system(), "machine": platform.machine()}
    wanted, weights = _manifest(bundle, set(here))
    if wanted != here:
        said = [f"{key} {wanted[key]}, here is {here[key]}" for key in wanted if wanted[key] != here[key]]
        raise Refused(f"{bundle} is for another machine: {'; '.join(said)}")
    _run([sys.executable, "-m", "venv", str(venv)], "the environment could not be made")
    bin_folder = venv.resolve() / ("Scripts" if os.name == "nt" else "bin")
    pip = [str(bin_folder / "python"), "-m", "pip", "--isolated", "--disable-pip-version-check"]
    offline = ["--no-index", "--find-links", str(bundle / WHEELS), "--no-deps", "--require-hashes"]
    _run([*pip, "install", "--quiet", *offline, "-r", str(bundle / LOCK)], "pip could not install the bundle")
    _run([*pip, "check"], "libraries do not fit together")
    if weights:
        shutil.copytree(bundle / WEIGHTS, venv / WEIGHTS)
        for entry in weights:
            print(f"weights {entry['name']}: {venv.resolve() / entry['file']}")
    if smoke:
        print(_smoke(bin_folder))
    print(f"installed: {bin_folder / 'memorisk'} --help")


def fetch_weights(name: str, folder: Path) -> list[dict[str, Any]]:
    """Download weights by memorisk's own loading code and keep their files.

    Args:
        name: As commands take it: `resnet50@default`, `timm:NAME@TAG`, `transformers:NAME@default`,
            `autoencoder:NAME@default`, or a diffusion transformer's `NAME@default`.
        folder: Gets a folder of the weights' name.

    Returns:
        An entry of the manifest for each file.

    Raises:
        Refused: They cannot be had.
    """
    kind, _, rest = name.rpartition(":")
    base, _, tag = rest.partition("@")
    with tempfile.TemporaryDirectory() as cache:
        hub = {"HF_HOME": cache, "HF_HUB_CACHE": cache, "HF_HUB_DISABLE_TELEMETRY": "1"}
        ask = [sys.executable, str(Path(__file__).resolve()), "ask-hub", kind, base, tag]
        done = subprocess.run(ask, env=os.environ | hub, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
            raise Refused(f"weights {name}: {said}")
        licences = json.loads(done.stdout.strip().splitlines()[-1])
        place = re.sub(r"[^0-9A-Za-z._-]+", "_", name)
        entries = []
        for snapshot in sorted(Path(cache).glob("models--*/snapshots/*")):
            repository = snapshot.parts[-3].removeprefix("models--").replace("--", "/")
            for file in sorted(path for path in snapshot.rglob("*") if path.is_file()):
                target = folder / place / file.relative_to(snapshot)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
                source = f"{repository}@{snapshot.name}/{file.relative_to(snapshot).as_posix()}"
                entries.append(
                    {"name": name, "version": snapshot.name, "licence": licences.get(repository, "not stated")}
                    | {"file": target.relative_to(folder.parent).as_posix(), "source": source} | _size(target)
                )  # fmt: skip
    if not entries:
        raise Refused(f"weights {name}: nothing was downloaded")
    return entries


def ask_hub(kind: str, base: str, tag: str) -> None:
    """Have memorisk download weights into the hub's cache; print the licence that each repository states, as JSON."""
    from memorisk.models.classifiers.zoo import create_model
    from memorisk.models.encoders.transformers import _downloaded
    from memorisk.models.hub import download_folder

    if kind == "transformers":
        _downloaded(base)
    elif kind == "autoencoder":
        download_folder(base, ("", "vae"), base)
    elif not kind and "/" in base:
        download_folder(base, ("transformer", "vae"), base, ("model_index.json", "scheduler/scheduler_config.json"))
    else:
        create_model(
            f"{kind}:{base}" if kind else base,
            num_classes=2,
            in_chans=3,
            image_size=224,
            weights=tag or "default",
            seed=0,
        )
    from huggingface_hub import HfApi, constants

    licences = {}
    for folder in Path(constants.HF_HUB_CACHE).glob("models--*"):
        repository = folder.name.removeprefix("models--").replace("--", "/")
        card = HfApi().model_info(repository).card_data
        licences[repository] = str(card.get("license") or "not stated") if card is not None else "not stated"
    print(json.dumps(licences))


def sha256(path: Path) -> str:
    """Hash of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(path: Path) -> str:
    """A file of a bundle as text.

    Raises:
        Refused: It is absent or no text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise Refused(f"{path} is not what build writes: it is absent or no text; copy the bundle anew") from None


def _manifest(bundle: Path, keys: set[str]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The machine that a bundle is for, and its files of weights.

    Raises:
        Refused: manifest.json does not say so.
    """
    try:
        found = json.loads(_text(bundle / MANIFEST))
        target, weights = found["target"], found["weights"]
        if set(target) == keys and all({"name", "file"} <= set(entry) for entry in weights):
            return target, weights
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise Refused(f"{bundle / MANIFEST} is not what build writes: build the bundle anew")


def _own_wheel(folder: Path) -> Path:
    """The wheel of the checkout that this file lies in."""
    root = Path(__file__).resolve().parents[1]
    _run(
        [*_pip(), "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder), str(root)],
        "memorisk's wheel could not be built (python -m pip install --require-hashes -r locks/build.txt)",
    )
    return next(folder.glob("memorisk-*.whl"))


def _own_locks(extras: str) -> list[Path]:
    """The lock files of the checkout for memorisk and these extras.

    Raises:
        Refused: There is none.
    """
    folder = Path(__file__).resolve().parents[1] / "locks"
    files = [folder / f"{name}.txt" for name in ("core", *filter(None, re.split(r"[,\s]+", extras)))]
    absent = [file.name for file in files if not file.is_file()]
    if absent:
        raise Refused(f"there is no lock file {absent[0]} in {folder}: run in a checkout, or name --lock FILE")
    return files


def locked(locks: list[Path]) -> dict[str, tuple[str, frozenset[str]]]:
    """Version and SHA-256 of the files of each package in lock files, by normalised name.

    Args:
        locks: Requirement files with hashes; ``-r FILE`` lines in them are followed.

    Raises:
        Refused: One cannot be read.
    """
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for lock in locks:
        try:
            text = lock.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise Refused(f"{lock} cannot be read as a lock file") from None
        found |= locked([lock.parent / name for name in re.findall(r"^-r (\S+)$", text, re.MULTILINE)])
        for block in re.split(r"\n(?=\S)", text):
            if match := re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", block):
                found[_plain(match[1])] = (match[2], frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", block)))
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _hold_to_lock(wheels: list[Path], pins: dict[str, tuple[str, frozenset[str]]], given: argparse.Namespace) -> None:
    """Compare each wheel with the lock, wherever pip got it.

    Builds of PyTorch's own index (``+cpu``) are in no lock; they are taken where that index was asked for.

    Raises:
        Refused: A wheel is not one of the files that the lock names.
    """
    for wheel in wheels:
        name, version, *_ = wheel.name.split("-")
        if given.torch_index and "+" in version:
            continue
        if sha256(wheel) not in pins.get(_plain(name), ("", frozenset()))[1]:
            raise Refused(f"{wheel.name} is not a file of the lock: it was changed, or the lock does not name it")


def _download(
    own: Path, folder: Path, given: argparse.Namespace, pins: dict[str, tuple[str, frozenset[str]]]
) -> dict[str, str]:
    """Download the wheels that memorisk needs; where each came from, by file name."""
    wanted = f"{own.resolve()}[{given.extras}]" if given.extras else str(own.resolve())
    command = [*_pip(), "download", "--quiet", "--only-binary=:all:", "--dest", str(folder), wanted]
    if given.torch_index:
        command += ["--extra-index-url", given.torch_index]
    if given.platform or given.python != _python():
        machine = _machine(given)
        tags = [f"manylinux_2_{minor}_{machine}" for minor in range(_glibc(given), OLDEST_GLIBC - 1, -1)]
        tags += [f"manylinux2014_{machine}", f"linux_{machine}"]
        command += ["--python-version", given.python, "--implementation", "cp"]
        command += [word for tag in tags for word in ("--platform", tag)]
    with tempfile.TemporaryDirectory() as logs:
        log, versions = Path(logs) / "pip.log", Path(logs) / "versions.txt"
        versions.write_text("".join(f"{name}=={version}\n" for name, (version, _) in pins.items()), encoding="utf-8")
        command += ["-c", str(versions)]
        _run([*command, "--log", str(log)], "pip could not get every wheel", quiet=True)
        urls = re.findall(r"(https?://[^\s#]+\.whl)", log.read_text(encoding="utf-8", errors="replace"))
    return {url.rsplit("/", 1)[1].replace("%2B", "+"): url for url in urls}


def _described(wheel: Path, sources: dict[str, str]) -> dict[str, Any]:
    """A wheel's entry of the manifest, from its own METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", n))
        metadata = HeaderParser().parsestr(archive.read(name).decode("utf-8", errors="replace"))
    classified = [c.rpartition(" :: ")[2] for c in metadata.get_all("Classifier", []) if c.startswith("License ::")]
    stated = metadata.get("License-Expression") or "; ".join(classified) or metadata.get("License") or "not stated"
    entry = {"name": metadata["Name"], "version": metadata["Version"], "licence": stated.strip().splitlines()[0][:120]}
    own = metadata["Name"] == "memorisk"
    source = "this checkout" if own else sources.get(wheel.name, "a local file of the machine that built the bundle")
    return entry | {"file": f"{WHEELS}/{wheel.name}", "source": source} | _size(wheel)


def _size(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256(path)}


def _files(bundle: Path) -> Iterator[str]:
    """Every file below a folder, links too, relative, with ``/``."""
    for path in bundle.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            name = path.relative_to(bundle).as_posix()
            if name != SUMS:
                yield name


def _smoke(bin_folder: Path) -> str:
    """Run the built-in audit, without a network where that can be had; what was shown."""
    cut = next((way for way in (["unshare", "-n"], ["unshare", "-rn"]) if _works([*way, "true"])), None)
    with tempfile.TemporaryDirectory() as folder:
        command = [str(bin_folder / "memorisk"), *SMOKE, "--out", f"{folder}/run", "--store", f"{folder}/store"]
        _run([*(cut or []), *command], "the built-in audit failed", quiet=True)
        if not (Path(folder) / "run" / "report.html").is_file():
            raise Refused("the built-in audit left no report")
    how = "in a network namespace without a network" if cut else "(no namespace without a network could be had here)"
    return f"the built-in audit ran {how}"


def _works(command: list[str]) -> bool:
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True).returncode == 0


def _run(command: list[str], wrong: str, *, quiet: bool = False) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    if done.returncode:
        said = [line for line in (done.stderr or done.stdout).strip().splitlines() if line.strip()]
        errors = [line for line in said if "ERROR" in line] or said
        raise Refused(f"{wrong}: {(errors or ['exit code ' + str(done.returncode)])[0].strip()[:300]}")
    if not quiet and done.stdout.strip():
        print(done.stdout.strip())


def _pip() -> list[str]:
    return [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _machine(given: argparse.Namespace) -> str:
    return given.platform.split("_", 3)[-1] if given.platform else platform.machine()


def _glibc(given: argparse.Namespace) -> int:
    return int(given.platform.split("_")[2]) if given.platform else NEWEST_GLIBC


def _platform(value: str) -> str:
    if not re.fullmatch(r"manylinux_2_\d+_(x86_64|aarch64)", value):
        raise argparse.ArgumentTypeError(f"{value}: give manylinux_2_GLIBC_MACHINE, as manylinux_2_28_x86_64")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("build", help="gather a bundle, where there is internet")
    one.add_argument("bundle", type=Path)
    one.add_argument("--extras", default="", help="of memorisk, by commas: medical,dp,onnx,detectors,...")
    one.add_argument("--torch-index", metavar="URL", help="where PyTorch's builds without CUDA lie, as its site says")
    one.add_argument("--python", default=_python(), help="of the other machine, as 3.11")
    one.add_argument(
        "--platform", type=_platform, help="of the other machine, as manylinux_2_28_x86_64; this one's if not given"
    )
    one.add_argument("--lock", type=Path, nargs="+", help="lock files; those of the checkout if not given")
    one.add_argument("--wheel", type=Path, help="a released wheel of memorisk instead of this checkout")
    one.add_argument("--weights", nargs="*", default=[], help="resnet50@default, transformers:NAME@default, ...")
    ask = commands.add_parser("ask-hub", help="used by build itself: one download, into the hub's cache")
    for name in ("kind", "base", "tag"):
        ask.add_argument(name)
    for name, text in (("check", "is every file as it was?"), ("install", "into a new environment, offline")):
        two = commands.add_parser(name, help=text)
        two.add_argument("bundle", type=Path)
        if name == "install":
            two.add_argument("venv", type=Path)
            two.add_argument("--no-smoke", action="store_true", help="do not run the built-in audit")
        two.add_argument("--expect", help="SHA-256 of SHA256SUMS, as build printed it")
    return parser


if __name__ == "__main__":
    sys.exit(main())

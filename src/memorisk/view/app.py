"""The pages of ``memorisk view``, one per address, all read-only but the two that keep a review."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import count
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import jinja2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from memorisk.audits.classifier.marks import write_mark
from memorisk.audits.image_set.page import problem_box
from memorisk.audits.image_set.run import SUMMARY, TABLES
from memorisk.audits.run_images import CLASSIFIED
from memorisk.report.blocks import Block
from memorisk.report.kinds import KINDS, kind_of, load_part
from memorisk.report.page import style_sheet, template_environment
from memorisk.runs.errors import InputError, MemoriskError, one_line, read_guard
from memorisk.runs.files import read_json
from memorisk.runs.folder import read_config
from memorisk.view.copies import ALONE_PER_PAGE, CheckRun, CopyFilters
from memorisk.view.copies import PER_PAGE as SETS_PER_PAGE
from memorisk.view.images import png
from memorisk.view.pairs import PER_PAGE, FilterRun, PairRun, SyntheticRun
from memorisk.view.patients import PER_PAGE as PATIENTS_PER_PAGE
from memorisk.view.patients import ClassifierRun, Filters
from memorisk.view.run_list import RunEntry, find_runs, read_entry
from memorisk.view.verdicts import check_blocks, number_rows, verdict_blocks

_PICTURE = {"Content-Type": "image/png"}
_LONGEST_BODY = 1 << 14  # bytes that an answer may have
LookedInto = SyntheticRun | FilterRun | ClassifierRun | CheckRun
"""Tables of a run that the pages show."""
ViewedRun = TypeVar("ViewedRun", bound=PairRun | ClassifierRun | CheckRun)
_ONLY: dict[type, str] = {
    SyntheticRun: "only a run of audit synthetic has pairs to judge",
    PairRun: "only a run of audit synthetic or filter has pairs to look at",
    ClassifierRun: "only a run of audit classifier or audit losses has patients to look at",
    CheckRun: "only a run of images check has sets of copies to look at",
}
"""Refusal of a run of another kind on the pages of these."""


class Viewer:
    """Runs that are shown, with the data that were read of them.

    Args:
        places: Paths of run folders, or of folders that hold some.

    Raises:
        InputError: No run was found.
    """

    def __init__(self, places: Sequence[Path]) -> None:
        self.places, self._lock = places, threading.Lock()
        self.runs: dict[str, RunEntry] = {}
        self._entries: dict[Path, tuple[tuple[int, ...], RunEntry]] = {}
        self._opened: dict[str, tuple[int, LookedInto]] = {}
        runs = self.find()
        if len(runs) == 1 and kind_of(runs[0].kind).viewed and runs[0].state == "done" and not runs[0].redacted:
            self.opened(runs[0])  # before the link is printed, since the user wants to see its pages

    def find(self) -> list[RunEntry]:
        """List the runs as they are now."""
        runs = find_runs(self.places, self._read)
        self.runs = {run.key: run for run in runs}
        return runs

    def run(self, request: Request) -> RunEntry:
        """Return the run that an address names, in its current state.

        Raises:
            InputError: The run does not exist.
        """
        entry = self.runs.get(request.path_params["run"])
        if entry is None:
            raise InputError("this run is not among those shown")
        return self._read(entry.folder, entry.name)

    def _read(self, folder: Path, name: str) -> RunEntry:
        """Describe a run; a finished one is read again only where its files were written again."""
        stamp = tuple(_written_at(folder / file) for file in ("config.yaml", "verdict.json", SUMMARY, "log.jsonl"))
        held = self._entries.get(folder)
        if held is None or held[0] != stamp or held[1].state != "done":
            held = stamp, read_entry(folder, name)
            self._entries[folder] = held
        return held[1]

    def opened_as(self, run: RunEntry, kind: type[ViewedRun]) -> ViewedRun:
        """Return the tables of a run of one kind, as `opened` does.

        Raises:
            InputError: The run is of another kind, is not finished, or was made with ``--redact``.
        """
        opened = self.opened(run)
        if not isinstance(opened, kind):
            raise InputError(_ONLY[kind])
        return opened

    def opened(self, run: RunEntry) -> LookedInto:
        """Return the tables of a run; they are read again where it was written again.

        Raises:
            InputError: The run has none to show, is not finished, or was made with ``--redact``.
        """
        viewed = kind_of(run.kind).viewed
        if not viewed or run.state != "done":
            commands = ", ".join(kind.command for kind in KINDS.values() if kind.viewed)
            raise InputError(f"only finished runs can be looked into, of these commands: {commands}")
        if run.redacted:
            raise InputError("this run was made with --redact: neither ids nor images of it are shown")
        with self._lock, read_guard(run.folder):
            written = _written_at(run.folder / (SUMMARY if run.kind == "images" else "verdict.json"))
            held = self._opened.get(run.key)
            if held is None or held[0] != written:
                held = written, load_part(viewed)(run.folder, read_config(run.folder), f"/run/{run.key}")
                self._opened[run.key] = held
            return held[1]


def create_app(places: Sequence[Path]) -> Starlette:
    """Return the application, which answers every request: `guard.Guard` protects it.

    Args:
        places: Paths of run folders, or of folders that hold some.

    Raises:
        InputError: No run was found.
    """
    viewer = Viewer(places)
    pages = Pages(viewer)
    routes = [
        Route("/", pages.runs),
        Route("/compare", pages.compare),
        Route("/run/{run}", pages.run),
        Route("/run/{run}/pairs", pages.pairs),
        Route("/run/{run}/pair/{place:int}", pages.pair),
        Route("/run/{run}/pair/{place:int}/{what}", pages.pair_picture),
        Route("/run/{run}/image/{part}/{row:int}", pages.image),
        Route("/run/{run}/judge", pages.judge, methods=["POST"]),
        Route("/run/{run}/undo", pages.undo, methods=["POST"]),
        Route("/run/{run}/patients", pages.patients),
        Route("/run/{run}/copies", pages.copies),
        Route("/run/{run}/mark", pages.mark, methods=["POST"]),
        Route("/static/{name}", _static),
    ]
    handlers: Mapping[Any, Callable[[Request, Exception], Response]] = {MemoriskError: _problem, 404: _problem}
    return Starlette(routes=routes, exception_handlers=handlers)


class Pages:
    """Handlers of all pages, one for each address.

    Args:
        viewer: Viewer that reads the runs.
    """

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer

    def runs(self, request: Request) -> Response:
        """Show the list of all runs."""
        return _page("runs.html", "Runs", runs=self.viewer.find())

    def compare(self, request: Request) -> Response:
        """Show two runs side by side.

        Raises:
            InputError: The number of chosen runs is not two.
        """
        chosen = [self.viewer.runs[key] for key in request.query_params.getlist("run") if key in self.viewer.runs]
        if len(chosen) != 2:
            raise InputError("choose two runs to compare")
        verdicts = [_verdict(run) for run in chosen]
        sides = [{"run": run, "blocks": _lead(run, verdict)} for run, verdict in zip(chosen, verdicts, strict=True)]
        rows = number_rows(*(verdict or {} for verdict in verdicts))
        return _page("compare.html", "Two runs", sides=sides, rows=rows, kinds_differ=chosen[0].kind != chosen[1].kind)

    def run(self, request: Request) -> Response:
        """Show the verdict of a run, and links to its further pages."""
        run = self.viewer.run(request)
        note, links = "", list[tuple[str, str, str]]()
        if run.redacted and run.state == "done":
            note = "This run was made with --redact: neither ids nor images of it are shown."
        elif run.state == "done" and kind_of(run.kind).viewed:
            links = self.viewer.opened(run).links
        lead = _lead(run, _verdict(run))
        if run.kind == "images" and run.state == "done":
            with read_guard(run.folder):
                lead += check_blocks(run.folder / TABLES, redacted=run.redacted)
        path = run.folder / "report.html"
        report = str(path) if path.is_file() else ""
        return _page("run.html", run.name, run=run, at_run=True, lead=lead, note=note, links=links, report=report)

    def pairs(self, request: Request) -> Response:
        """Show a page of pairs as a grid."""
        run = self.viewer.run(request)
        pair_run = self.viewer.opened_as(run, PairRun)
        review = pair_run.review if isinstance(pair_run, SyntheticRun) else None
        last = max(1, -(-len(pair_run.pairs) // PER_PAGE))
        page = min(max(1, _number(request.query_params.get("page", "1"))), last)
        return _page(
            "pairs.html",
            f"Pairs of {run.name}",
            run=run,
            here="Pairs",
            pairs=pair_run.tiles(page),
            n=len(pair_run.pairs),
            progress=None if review is None else review.progress,
            next_open=None if review is None else review.next_open(-1),
            note=pair_run.images.reason("synthetic") or pair_run.images.reason("training"),
            page=page,
            last=last,
        )

    def pair(self, request: Request) -> Response:
        """Show one pair, to be judged.

        Raises:
            InputError: The pair does not exist.
        """
        run, place = self.viewer.run(request), request.path_params["place"]
        pair_run = self.viewer.opened_as(run, PairRun)
        pairs = pair_run.pairs
        if not 0 <= place < len(pairs):
            raise InputError("this pair does not exist")
        return _page(
            "pair.html",
            f"Pair {place + 1}",
            run=run,
            here="Pairs",
            kind="pair",
            place=place,
            n=len(pairs),
            said=pairs.answer(place),
            previous=f"/run/{run.key}/pair/{max(0, place - 1)}",
            following=f"/run/{run.key}/pair/{min(len(pairs) - 1, place + 1)}",
            panes=pair_run.panes(place),
            found_by=pairs.text(place, "found_by") or "a person",
            patient=pairs.text(place, "patient"),
            score=pair_run.score(place),
            alignment=pairs.text(place, "alignment"),
            copies=len(pairs.rows(place)),
            judging=pair_run.judging(place) if isinstance(pair_run, SyntheticRun) else None,
        )

    def pair_picture(self, request: Request) -> Response:
        """Return a training image laid on its synthetic one, or the difference of the two.

        Raises:
            InputError: The picture does not exist.
        """
        pair_run, place = self.viewer.opened_as(self.viewer.run(request), PairRun), request.path_params["place"]
        what = request.path_params["what"]
        if what not in ("laid", "difference") or not 0 <= place < len(pair_run.pairs):
            raise InputError("this picture does not exist")
        pixels = pair_run.both(place)[1] if what == "laid" else pair_run.difference(place)
        return Response(png(pixels), headers=_PICTURE)

    def image(self, request: Request) -> Response:
        """Return an image of a run, by its part and row.

        Raises:
            InputError: The image does not exist.
        """
        images = self.viewer.opened(self.viewer.run(request)).images
        part, row = request.path_params["part"].replace("-", " "), request.path_params["row"]
        if part not in images.sources or not 0 <= row < len(images.part(part)):
            raise InputError("this image does not exist")
        if request.query_params.get("small"):
            return Response(images.thumbnail(part, row), headers=_PICTURE)
        return Response(png(images.part(part).pixels(row)), headers=_PICTURE)

    def patients(self, request: Request) -> Response:
        """Show patients of a classifier run as a grid."""
        run = self.viewer.run(request)
        classifier_run = self.viewer.opened_as(run, ClassifierRun)
        query = request.query_params
        flagged = query.getlist("flagged")[0] == "1" if "flagged" in query else classifier_run.any_flagged
        filters = Filters(query.get("label", ""), flagged, _decimal(query.get("from", "")))
        rows = classifier_run.chosen(filters)
        last = max(1, -(-len(rows) // PATIENTS_PER_PAGE))
        page = min(max(1, _number(query.get("page", "1"))), last)
        return _page(
            "patients.html",
            f"Patients of {run.name}",
            run=run,
            here="Patients",
            n=len(rows),
            filters=filters,
            chart=classifier_run.chart(filters),
            cards=classifier_run.cards(rows[(page - 1) * PATIENTS_PER_PAGE : page * PATIENTS_PER_PAGE]),
            marks=classifier_run.marks,
            note=classifier_run.images.reason(CLASSIFIED),
            file=str(classifier_run.file),
            page=page,
            last=last,
        )

    def copies(self, request: Request) -> Response:
        """Show sets of copies of a check, or all images of one set.

        Raises:
            InputError: The set does not exist.
        """
        run = self.viewer.run(request)
        check_run = self.viewer.opened_as(run, CheckRun)
        query = request.query_params
        alone = _number(query["set"]) if "set" in query else None
        filters = CopyFilters(query.get("across", ""), query.get("kind", ""), alone)
        places = check_run.chosen(filters)
        if alone is not None and not len(places):
            raise InputError("this set of copies does not exist")
        n, each = (len(places), SETS_PER_PAGE) if alone is None else (check_run.size(places[0]), ALONE_PER_PAGE)
        last = max(1, -(-n // each))
        page = min(max(1, _number(query.get("page", "1"))), last)
        first = (page - 1) * each
        across, kinds = check_run.choices()
        return _page(
            "copies.html",
            f"Copies in {run.name}",
            run=run,
            here="Copies",
            n=n,
            of=len(check_run),
            filters=filters,
            across=across,
            kinds=kinds,
            sets=check_run.sets(places[first : first + each])
            if alone is None
            else [check_run.set(int(places[0]), first, each)],
            note=check_run.images.reason(CLASSIFIED),
            file=str(run.folder / TABLES / "sets.parquet"),
            page=page,
            last=last,
        )

    async def mark(self, request: Request) -> Response:
        """Give a patient a mark, or remove it.

        Raises:
            InputError: The patient or the mark does not exist.
        """
        body = await _body(request)
        run = self.viewer.run(request)
        patient = str(body.get("label", "")), str(body.get("group", ""))
        if not self.viewer.opened_as(run, ClassifierRun).known(*patient):
            raise InputError("this run has no such patient")
        marks = write_mark(run.folder, patient, str(body.get("mark", "")), given=body.get("given") is True)
        return JSONResponse({"marks": marks.get(patient, ())})

    async def judge(self, request: Request) -> Response:
        """Keep an answer, and return the number of the next pair.

        Raises:
            InputError: The answer is invalid.
        """
        body = await _body(request)
        run = self.viewer.run(request)
        review = self.viewer.opened_as(run, SyntheticRun).review
        answer = {name: str(body.get(name, "")) for name in ("pair", "verdict", "by", "reason")}
        review.judge(answer["pair"], answer["verdict"], answer["by"] or review.reviewer, answer["reason"])
        place = review.place_of[answer["pair"]]
        following = review.next_open(place)
        at = f"/pair/{following}" if following is not None else f"/pair/{place}"
        return JSONResponse({"next": f"/run/{run.key}{at}", "open": review.progress.open})

    async def undo(self, request: Request) -> Response:
        """Take the last answer back, and show its pair."""
        await _body(request)
        run = self.viewer.run(request)
        review = self.viewer.opened_as(run, SyntheticRun).review
        key = review.undo()
        if key is None:
            raise InputError("nothing was judged here that could be taken back")
        return JSONResponse({"next": f"/run/{run.key}/pair/{review.place_of[key]}", "open": review.progress.open})


def _written_at(path: Path) -> int:
    """Return when a file was written, in nanoseconds; 0 where it does not exist."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _lead(run: RunEntry, verdict: Mapping[str, Any] | None) -> list[Block]:
    """Lay out the first result of a run: its verdict, or the problems that a check found."""
    if run.kind == "images" and verdict is not None:
        problems = verdict.get("problems")
        counts = problems if isinstance(problems, Mapping) else {}
        return [problem_box({str(what): n for what, n in counts.items() if isinstance(n, int)})]
    return verdict_blocks(verdict, run.progress)


def _verdict(run: RunEntry) -> Mapping[str, Any] | None:
    """Return the verdict of a run, or the summary of a check; None without one.

    Raises:
        InputError: The file is damaged.
    """
    path = run.folder / (SUMMARY if run.kind == "images" else "verdict.json")
    content = read_json(path) if path.is_file() else None
    return content if isinstance(content, Mapping) else None


async def _body(request: Request) -> Mapping[str, Any]:
    """Read the data that a page sent.

    Raises:
        InputError: The data are too long, or not an object.
    """
    raw = b""
    async for piece in request.stream():
        raw += piece
        if len(raw) > _LONGEST_BODY:
            raise InputError("the answer is too long")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InputError("the answer is not a JSON object")
    return body


def _number(text: str) -> int:
    """Return a whole number; 1 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 1


def _decimal(text: str) -> float | None:
    """Return a finite number; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _page(template: str, title: str, *, status: int = 200, **values: Any) -> Response:
    """Return the page of a template."""
    numbers = count(1)
    context = {"run": None, "at_run": False, "here": "", "kind": "", **values}
    html = _templates().get_template(template).render(title=title, next_id=lambda: f"b{next(numbers)}", **context)
    return HTMLResponse(html.encode("utf-8", errors="backslashreplace"), status_code=status)


def _problem(request: Request, error: Exception) -> Response:
    """Return one line on an error: to a script as JSON, to a reader as a page."""
    expected = isinstance(error, MemoriskError)
    why, status = (one_line(error, 400), 404 if request.method == "GET" else 400) if expected else ("no such page", 404)
    if request.method != "GET":
        return JSONResponse({"error": why}, status_code=status)
    if "/image/" in request.scope["path"] or request.path_params.get("what"):
        return PlainTextResponse(f"{why}\n", status_code=status)
    return _page("problem.html", "That cannot be shown", status=status, why=why)


_STATIC = {"view.css": "text/css", "view.js": "text/javascript"}


def _static(request: Request) -> Response:
    """Return the style sheet or the script, which come with the package."""
    name = request.path_params["name"]
    if name not in _STATIC:
        return RedirectResponse("/", status_code=303)
    text = _file(name)
    return Response(f"{style_sheet()}\n{text}" if name == "view.css" else text, media_type=_STATIC[name])


@cache
def _file(name: str) -> str:
    """Return a file of this package's templates."""
    return resources.files("memorisk.view").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _templates() -> jinja2.Environment:
    """Return the report's templates, with those of this package."""
    report = template_environment()
    assert report.loader is not None
    names = {entry.name for entry in resources.files("memorisk.view").joinpath("templates").iterdir()}
    ours = jinja2.FunctionLoader(lambda name: _file(name) if name in names else None)
    return report.overlay(loader=jinja2.ChoiceLoader([ours, report.loader]))

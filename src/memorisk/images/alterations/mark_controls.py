"""Controls: marks that show what the model would do with any mark like this one (METHODS section 2, "Corrected").

KL follows ink (r = 0.94), so controls match the mark: they have the same rectangle at the same place and the very same
values and opacities in another arrangement, as rough as the mark's (so that strokes are compared with strokes). The
controls of a text are other texts of the same shape, letter for letter, with names of the same length, closest in ink:
common family and given names by length, which could replace the name of another patient.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memorisk.images.alterations.marks import Mark, letter, pattern
from memorisk.runs.errors import InputError, one_line

FAMILY_NAMES = """
HO HU LE LI MA NG WU XU YU COX DAY FOX KIM LAW LEE MAY RAY ROY BELL BYRD CARR CHEN COLE COOK DEAN DIAZ FORD GRAY HALL
HART HILL HUNT KING LANE LONG NASH PARK REED RICE ROSS RYAN WANG WARD WEST WOOD ADAMS ALLEN BAKER BLACK BROWN CLARK
COHEN DAVIS EVANS GRANT GREEN JONES LEWIS LOPEZ MEYER MOORE PEREZ PRICE SCOTT SMITH STONE YOUNG ARNOLD BAILEY BROOKS
BUTLER CARTER COOPER FISHER FLORES FOSTER GARCIA GRAHAM HANSEN HARRIS HOLMES HOWARD HUGHES HUNTER JORDAN KELLEY MARTIN
MILLER MORRIS MURPHY NELSON PALMER PARKER RAMSEY RIVERA SIMONS TAYLOR THOMAS TORRES TURNER WAGNER WALKER WATSON WEAVER
WILSON WRIGHT ANDREWS BENNETT COLEMAN COLLINS EDWARDS ELLIOTT FREEMAN GARDNER GRIFFIN JACKSON JENKINS JOHNSON MORALES
PERKINS RAMIREZ ROBERTS RUSSELL SANCHEZ SANDERS SCHULTZ SIMMONS SIMPSON SPENCER STANLEY STEVENS STEWART WALLACE
WEBSTER ANDERSON CAMPBELL CRAWFORD FERGUSON GONZALES GONZALEZ HAMILTON HOFFMANN MARSHALL MARTINEZ MITCHELL PETERSON
PHILLIPS REYNOLDS RICHARDS ROBINSON SULLIVAN THOMPSON WILLIAMS ALEXANDER ARMSTRONG FERNANDEZ GUTIERREZ HENDERSON
HERNANDEZ MCCORMICK PATTERSON RODRIGUEZ SCHNEIDER SCHROEDER CUNNINGHAM FITZGERALD MONTGOMERY RICHARDSON STEPHENSON
WASHINGTON WILLIAMSON CHRISTENSEN
"""

GIVEN_NAMES = """
AL BO CY DI ED JO MO TY AMY ANN EVA IAN IDA JAY JIM JOE KAY KEN LEA LEO LIZ MAX MIA PAM PAT RAY ROB RON SAM SUE TED
TIM TOM ZOE ADAM ALAN ALEX ANNA BETH CARL CHAD CODY CORA DALE DAVE DEAN DORA EARL ELLA EMMA ERIC ERIN EVAN FRED GAIL
GARY GENE GINA GLEN GREG HUGH JACK JANE JEAN JEFF JILL JOAN JOEL JOHN JOSE JUAN JUNE KARL KATE KENT KURT KYLE LEAH
LENA LILY LISA LOIS LORI LUCY LUIS LUKE MARK MARY MIKE NEIL NINA NOAH NORA OWEN PAUL PETE PHIL RICK ROSA ROSE ROSS
RUTH RYAN SARA SEAN TARA TERI TINA TODD TONY VERA WADE WILL AARON ALICE ANGEL ANITA BETTY BRIAN BRUCE BRYAN CARLA
CAROL CHRIS CINDY CLARA CRAIG DAISY DANNY DAVID DEBRA DIANA DIANE DONNA DORIS EDITH ELENA ELLEN EMILY ERICA ETHAN
FRANK GRACE HARRY HEIDI HELEN HENRY IRENE JAMES JANET JASON JERRY JESSE JOYCE JULIA JULIE KAREN KATHY KEITH KELLY
KEVIN LARRY LAURA LINDA LOUIS LUCAS MARIA MARIE MEGAN NANCY OLIVE OSCAR PAULA PETER RALPH ROBIN ROGER SARAH SCOTT
SHANE SIMON SONIA STEVE SUSAN TERRY TRACY WANDA WAYNE ALBERT AMANDA ANDREW ANGELA ARLENE ARTHUR ASHLEY AUSTIN BONNIE
BRENDA CARLOS CARMEN CHERYL CONNIE DANIEL DENISE DENNIS DONALD EDWARD ELAINE EUGENE EVELYN GEORGE GERALD GLORIA GORDON
HANNAH HAROLD JEREMY JOANNE JOSEPH JOSHUA JUDITH JUSTIN LAUREN MARTHA MARTIN MELVIN MONICA NATHAN NICOLE OLIVIA PAMELA
PHILIP RACHEL ROBERT RONALD SAMUEL SANDRA SHARON SOPHIA STEVEN TERESA THOMAS VICTOR WALTER ABIGAIL ANNETTE ANTHONY
BARBARA BRANDON CHARLES CRYSTAL DEBORAH DOLORES DOROTHY DOUGLAS FRANCES GABRIEL HEATHER JESSICA KATHRYN KENNETH
LILLIAN MADISON MARILYN MATTHEW MELISSA MICHAEL MILDRED NATALIE PATRICK RAYMOND REBECCA RICHARD RUSSELL SHIRLEY
STEPHEN THERESA TIMOTHY VANESSA VINCENT WILLIAM BENJAMIN CARLOTTA CAROLINE DANIELLE JENNIFER JONATHAN KATHLEEN
KIMBERLY LAWRENCE MARGARET MICHELLE NICHOLAS PATRICIA SAMANTHA THEODORE VERONICA VICTORIA VIRGINIA ALEXANDER CATHERINE
CHARLOTTE CHRISTIAN CHRISTINA CHRISTINE ELIZABETH FREDERICK GENEVIEVE GERALDINE KATHERINE MADELEINE STEPHANIE
ALEXANDRIA ANTOINETTE BERNADETTE JACQUELINE
"""

NAMES_BY_LENGTH: dict[int, tuple[str, ...]] = {
    n: tuple(sorted({name for name in (FAMILY_NAMES + GIVEN_NAMES).split() if len(name) == n})) for n in range(2, 12)
}
"""Names of each length. Every one of them is common, so a rare name has no controls as rare as itself here."""


FloatArray = NDArray[np.float64]

CONTROL_KINDS = ("matched", "shuffled", "letters", "random")
"""Kinds of controls; the last two match nothing and exist to show why matching matters."""
SMALL = 400
"""Largest number of pixels for which swaps seek an arrangement; a larger patch is arranged by its spectrum."""
_SWAPS, _ROUNDS = 300, 200
_CANDIDATES = 20


def make_controls(
    mark: Mark, n: int, *, kind: str = "matched", seed: int = 0, render: Callable[[str], Mark] | None = None
) -> list[Mark]:
    """Make controls of a mark, all different from one another and from the mark.

    Args:
        mark: Mark to control for.
        n: Number of controls; where fewer exist, all that were found are returned.
        kind: "matched"; "shuffled": the mark's pixels in any order; "letters": the other letters; "random": uniform
            values, as the paper's z_r.
        seed: Seed of all draws.
        render: Function that draws a text; required for a mark of text.

    Raises:
        InputError: The kind is unknown, or no control could be made.
    """
    if kind not in CONTROL_KINDS:
        raise InputError(
            f"controls are {one_line(kind, 40)}; they must be one of {', '.join(CONTROL_KINDS)}, or a file"
        )
    rng = np.random.default_rng(seed)
    if kind == "letters":
        letters = [letter(name, place=mark.place) for name in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if name != mark.name]
        factor = max(1, mark.shape[0] // 5)
        return [replace(one.scaled(factor), place=mark.place) for one in letters][:n]
    if kind == "random":
        return [pattern(mark.shape, seed=int(s), place=mark.place) for s in rng.integers(1 << 32, size=n)]
    if mark.kind == "text" and kind == "matched":
        if render is None:
            raise InputError("controls of a text need the way it is drawn")
        return _other_texts(mark, n, rng, render)
    return _arrangements(mark, n, rng, rough=kind == "matched")


def roughness(mark: Mark) -> tuple[float, float]:
    """Measure how much the covered brightness changes from pixel to pixel, along rows and along columns.

    The two are ``sum |b_i,j+1 - b_i,j|`` and ``sum |b_i+1,j - b_i,j|`` with b = alpha x value; for black and white
    marks they are the number of edges.
    """
    return _rough(_brightness(mark.values, mark.alpha))


def _brightness(values: np.ndarray, alpha: np.ndarray) -> FloatArray:
    value = values if values.ndim == 2 else values.mean(axis=2)
    return np.asarray(value, dtype=np.float64) * alpha


def _rough(b: FloatArray) -> tuple[float, float]:
    return float(np.abs(np.diff(b, axis=1)).sum()), float(np.abs(np.diff(b, axis=0)).sum())


def _arrangements(mark: Mark, n: int, rng: np.random.Generator, *, rough: bool) -> list[Mark]:
    """Return the mark's pixels, values with their opacities, in other orders."""
    h, w = mark.shape
    b = _brightness(mark.values, mark.alpha)
    values, alpha = mark.values.reshape(h * w, *mark.values.shape[2:]), mark.alpha.reshape(-1)
    want = _rough(b)
    patterns = {b.tobytes()}
    controls: list[Mark] = []
    for _ in range(_ROUNDS * n):
        if len(controls) == n:
            break
        order = rng.permutation(h * w)
        if rough:
            order = _as_rough(b.reshape(-1), order, want, (h, w), rng) if h * w <= SMALL else _as_spectrum(b, rng)
        drawn = b.reshape(-1)[order].reshape(h, w)
        if drawn.tobytes() in patterns:
            continue
        patterns.add(drawn.tobytes())
        name = f"control {len(controls) + 1}"
        controls.append(
            replace(
                mark,
                name=name,
                values=values[order].reshape(mark.values.shape),
                alpha=alpha[order].reshape(h, w),
                kind="pattern",
            )
        )
    if not controls:
        raise InputError(
            f"the mark {one_line(mark.name, 40)} has no other arrangement of its pixels (all alike): take --controls "
            "random, or a mark with structure"
        )
    return controls


def _as_rough(
    b: FloatArray, order: np.ndarray, want: tuple[float, float], shape: tuple[int, int], rng: np.random.Generator
) -> np.ndarray:
    """Swap pixels while that brings the roughness, along rows and along columns, nearer to the mark's."""

    def far(at: np.ndarray) -> float:
        """Measure how far the roughness of this arrangement is from the mark's."""
        rows, columns = _rough(b[at].reshape(shape))
        return abs(rows - want[0]) + abs(columns - want[1])

    now = far(order)
    for _ in range(_SWAPS * max(1, len(b) // 25)):
        if now <= 0.02 * sum(want):
            break
        i, j = rng.integers(len(b), size=2)
        if b[order[i]] == b[order[j]]:
            continue
        other = order.copy()
        other[[i, j]] = other[[j, i]]
        then = far(other)
        if then <= now:
            order, now = other, then
    return order


def _as_spectrum(b: FloatArray, rng: np.random.Generator) -> np.ndarray:
    """Return an order of the pixels with nearly the patch's spectrum: iterated amplitude-adjusted surrogates."""
    amplitude = np.abs(np.fft.rfft2(b))
    ranked = np.argsort(b.reshape(-1), kind="stable")
    order = rng.permutation(b.size)
    for _ in range(30):
        spectrum = np.fft.rfft2(b.reshape(-1)[order].reshape(b.shape))
        size = np.abs(spectrum)
        turned = np.where(size > 0, spectrum / np.where(size > 0, size, 1), 1)
        smooth = np.fft.irfft2(amplitude * turned, s=b.shape).reshape(-1)
        order = np.empty(b.size, dtype=np.intp)
        order[np.argsort(smooth, kind="stable")] = ranked
    return order


def _other_texts(mark: Mark, n: int, rng: np.random.Generator, render: Callable[[str], Mark]) -> list[Mark]:
    """Return texts of the same shape, drawn the same way, the n closest in ink."""
    texts: dict[str, None] = {}
    for _ in range(_ROUNDS * n):
        if len(texts) == _CANDIDATES * n:
            break
        text = similar_text(mark.name, rng)
        if text != mark.name:
            texts[text] = None
    if not texts:
        raise InputError(f"no other text is like {one_line(mark.name, 40)}: give texts with --controls FILE")
    drawn = [render(text) for text in texts]
    nearest = np.argsort([abs(np.log(one.ink / mark.ink)) for one in drawn], kind="stable")[:n]
    return [drawn[i] for i in sorted(nearest)]


def similar_text(text: str, rng: np.random.Generator) -> str:
    """Draw a text of the same shape: words of 2 to 10 letters become names, others letters and digits, the rest stays.

    Args:
        text: Text to imitate, for example "DOE, JANE 1961".
        rng: Generator to draw from.
    """
    return re.sub(r"[^\W\d_]+|\d+", lambda m: _like(m.group(), rng), text)


def _like(word: str, rng: np.random.Generator) -> str:
    if word.isdigit():
        return "".join(str(d) for d in rng.integers(10, size=len(word)))
    names = NAMES_BY_LENGTH.get(len(word), ())
    if len(names) >= 10:
        name = names[int(rng.integers(len(names)))]
    else:
        name = "".join("ABCDEFGHIJKLMNOPRSTUVWY"[int(i)] for i in rng.integers(23, size=len(word)))
    return name.lower() if word.islower() else name if word.isupper() else name.title()

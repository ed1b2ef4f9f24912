"""Rows rounded to whole numbers, with what that took from each, measured; the bound is in `grid`."""

import numpy as np

from memorisk.scores.distances.compiling import compiled


@compiled()
def round_rows(x, order, centre, size, whole, inverse, half, widest, stages, short, own, rest, slack):
    """Fill a block's whole numbers, own sums, rests and slacks; see `grid.Block`.

    Args:
        x: [m, d] rows.
        order: [c] columns, and so the next four.
        centre: Of `grid.Grid`, and so all up to ``stages``.
        size: Absolute weights.
        whole: [D] W.
        inverse: 1 / step.
        half: Largest whole number.
        widest: Largest of every column.
        stages: [S].
        short: [m, D] zeros, filled, and so the rest.
        own: [m, S].
        rest: [m, S].
        slack: [m].
    """
    room = (x.shape[1] + 64) * 2.0**-49
    for i in range(len(x)):
        lost = most = 0.0
        total = later = stage = 0
        for t in range(len(order)):
            if t == stages[stage]:
                own[i, stage] = total
                rest[i, stage] = later
                stage += 1
            times = abs(np.int64(whole[t]))
            value = ((x[i, order[t]] - centre[t]) * size[t]) * inverse / times
            near = min(max(np.floor(value + 0.5), -half), half)
            short[i, t] = np.int16(near)
            lost += times * abs(value - near)
            most += times * abs(value)
            total += np.int64(near) * whole[t]
            if whole[t] > 0:
                later += times * (np.int64(abs(near)) + widest[t])
        for last in range(stage, len(stages)):
            own[i, last] = total
            rest[i, last] = later
        for last in range(len(stages)):
            rest[i, last] = later - rest[i, last]
        slack[i] = lost * (1.0 + 2.0**-20) + most * room + 2.0**-60

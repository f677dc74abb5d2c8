"""How curves are told apart: a colour and a dash for every method, the same in all figures; and where their names stand.

Colour   eight that the colour-blind can tell apart. A method keeps its colour everywhere; several curves of one method in a panel (its
         settings) are shades of it. All of them stand at least 3 to 1 against white.
Dash     no two curves of a panel share one: a picture can be read in grey.
Names    stand beside the ends of their curves, pushed apart where they would lie on each other.
"""

from __future__ import annotations

from collections.abc import Sequence

BLUE, RED, GREEN, PURPLE, BLACK, OCHRE, SKY, GREY = range(8)
COLOURS = ("#0072B2", "#D55E00", "#008A62", "#882255", "#1A1A1A", "#A87400", "#3494CC", "#7A7A7A")
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (6, 2),
    (1.2, 1.6),
    (8, 2, 1.2, 2),
    (3, 1.4),
    (12, 3),
    (6, 1.6, 1.2, 1.6, 1.2, 1.6),
    (1.2, 3.2),
)
MOST = len(COLOURS)  # curves in a panel
READABLE = 4.5  # contrast of words
VISIBLE = 3.0  # contrast of curves
DARK = 8.0  # contrast of hues that have more room towards white than towards black
# Shades in the order in which a panel takes them: below 0 towards black, above 0 of the way to the lightest that is VISIBLE.
SHADES, OF_DARK = (0.0, -0.5, -0.75, -0.25, 1.0, -0.62, 0.5, -0.88), (0.0, 1.0, 0.5, 0.75, 0.25, 0.62, 0.37, 0.88)

METHODS: dict[str, int] = {
    # ours, wherever it stands
    "GraphRidge": SKY,
    "GraphADMM": BLUE,
    "GraphTLS": BLUE,
    "ours (GraphTLS)": BLUE,
    "ours (GraphZerothOrder)": BLUE,
    "ours, rho by itself": BLUE,
    "ours": BLUE,
    "ours, private": BLUE,
    "ours, trust nobody": BLUE,
    "ours, trust consortium": SKY,
    "Private Gram": BLUE,
    "private block Frank-Wolfe": SKY,
    # Bellet et al.
    "dFW": GREEN,
    "dFW, line search": GREEN,
    "dFW, then one solve": SKY,
    "dFW, corrective": SKY,
    "ADMM, best rho of the grid": RED,
    "sharing ADMM": RED,
    "ADMM, rho balanced": OCHRE,
    "random columns": PURPLE,
    "random examples": PURPLE,
    "local coresets": BLACK,
    # Lou and Cheung
    "elementary": GREEN,
    "τ-nice": PURPLE,
    "(K, τ)": BLUE,
    "(K, τ), printed p_min": RED,
    "K parties": BLUE,
    "two parties, as many columns": RED,
    "Frank-Wolfe, not private": GREY,
    "central DP-FW, as published": BLACK,
    "DP-BCFW as published": RED,
    "DP-BCFW, noise off": GREEN,
    "DP-BCFW, vertices averaged": PURPLE,
    "least in the ball": OCHRE,
    # Raff et al.
    "algorithm 1": BLACK,
    "algorithm 2": RED,
    # Hu et al.
    "published": RED,
    "published, noise of theorem 1": OCHRE,
    "equation 17, not divided by n": PURPLE,
    "SGD": PURPLE,
    "scikit-learn, all columns": BLACK,
    "scikit-learn, first party's columns": GREY,
    # Gratton
    "DA-TLS": RED,
    "D-TLS": GREEN,
    "IPI-D-TLS": PURPLE,
    "D-ZOA": RED,
    "D-SG": GREEN,
    "OR-ZO": GREEN,
    "ZOO-ADMM": PURPLE,
    "DP-ADMM": GREEN,
    "DPSGD": PURPLE,
    "PVP": OCHRE,
    "DVP": SKY,
    "exact ADMM with the noise of theorem 4.1": BLACK,
    "D-Ridge": RED,
    "diffusion": GREEN,
    "DC-ADMM": PURPLE,
    "algorithm 6": RED,
    "algorithm 7": OCHRE,
    "broadcast ADMM": BLACK,
    "as printed: θ": RED,
    "sign mended: x = −θ": OCHRE,
    "both mended": GREEN,
}


def look(method: str, met: Sequence[str], dashes: Sequence[int]) -> tuple[str, int]:
    """Colour and dash of the next curve of a panel that shows these methods, with these dashes, already."""
    before = list(dict.fromkeys(met))
    slot = METHODS.get(method)
    if slot is None:  # not in the table: the first colour that the panel does not show
        taken = {METHODS.get(name, place) for place, name in enumerate(before) if name != method}
        slot = before.index(method) if method in before else next((k for k in range(MOST) if k not in taken), 0)
    free = [k for k in range(len(DASHES)) if k not in dashes]
    dash = slot if slot in free else free[0]
    return shade(COLOURS[slot], met.count(method)), dash


def shade(colour: str, turn: int) -> str:
    """The same hue, darker or lighter: the first is the colour itself."""
    parts = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
    part = (OF_DARK if contrast(parts) > DARK else SHADES)[turn % len(SHADES)]
    if part < 0:
        return _hex([value * (1.0 + part) for value in parts])
    lightest = max(k for k in range(256) if contrast([v + (255 - v) * k // 255 for v in parts]) >= VISIBLE)
    return _hex([value + (255 - value) * part * lightest / 255 for value in parts])


def _hex(parts: Sequence[float]) -> str:
    return "#" + "".join(f"{int(value):02X}" for value in parts)


def ink(colour: str) -> str:
    """The colour for words: darker, until it stands 4.5 to 1 against white."""
    parts = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
    while contrast(parts) < READABLE:
        parts = [int(0.95 * value) for value in parts]
    return _hex(parts)


def contrast(parts: Sequence[int]) -> float:
    """Of a colour against white, as WCAG 2 counts it."""
    shares = [value / 255 for value in parts]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 1.05 / (0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)


def apart(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Middles between 0 and 1, in the order of those that are wanted and as near to them, none on another.

    Where all together are higher than the space, they keep their order and go on below it.
    """
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    found, top = [0.0] * len(wanted), 1.0
    for k in reversed(order):  # from the top down, each as high as it may
        found[k] = min(wanted[k], top - heights[k] / 2)
        top = found[k] - heights[k] / 2
    floor = 0.0
    for k in order:  # and from the bottom up, none below the floor
        found[k] = max(found[k], floor + heights[k] / 2)
        floor = found[k] + heights[k] / 2
    return found

"""Draw a model of three states beside its flat arrays: `python docs/data/draw_arrays.py` writes docs/arrays.svg.

Every number in the picture is read from the model, which the guide makes in several ways.
"""

from collections.abc import Iterator
from pathlib import Path

import rue

FILE = Path(__file__).resolve().parent.parent / "arrays.svg"
INK, FAINT, PAPER = "#1A1A1A", "#767676", "#FFFFFF"
STATES = ("#CFE3F1", "#FBE3BF", "#CDE9DD")  # tints of three states: hall, door, out
DARK = ("#0B5C94", "#9A5B00", "#00664A")
WIDTH, HEIGHT = 1090, 500
LEFT, CELL, ROW, GOAL = 690, 80, 34, 62  # of the arrays; a goal has a place, though no choices


def example() -> rue.UMDP:
    """Return the model of the guide: a hall, a door, and a way out, with two samples."""
    builder = rue.Builder(samples=2)
    builder.add("hall", "walk", {"hall": [0.1, 0.4], "door": [0.9, 0.6]}, cost=1.0)
    builder.add("hall", "call", {"out": 1.0}, cost=[3.0, 2.0])
    builder.add("door", "open", {"out": 1.0}, cost=0.5)
    return builder.goal("out").build()


def text(x: float, y: float, words: object, size: float = 15, anchor: str = "middle", **look: str) -> str:
    """Return words at a place; `look` are attributes, such as fill."""
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in ({"fill": INK} | look).items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}"{more}>{words}</text>'


def mono(x: float, y: float, words: object, size: float = 15, anchor: str = "middle", **look: str) -> str:
    """Return what is typed, or a number of an array."""
    return text(x, y, words, size, anchor, **look | {"class": "mono"})


def box(x: float, y: float, width: float, fill: str, words: object = "") -> str:
    """Return a cell of an array."""
    cell = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{ROW}" fill="{fill}" stroke="{INK}"/>'
    return cell + (mono(x + width / 2, y + 22.5, words) if words != "" else "")


def path(points: str, arrow: bool = True) -> str:
    """Return a line of the drawn model."""
    end = ' marker-end="url(#arrow)"' if arrow else ""
    return f'<path d="{points}" fill="none" stroke="{INK}" stroke-width="1.6"{end}/>'


def pair(values: object) -> str:
    """Return the numbers of both samples, or one if they are the same."""
    first, second = (f"{value:g}" for value in values)
    return first if first == second else f"{first} | {second}"


def drawn_model(model: rue.UMDP) -> Iterator[str]:
    """Yield the model as circles, choices and arrows."""
    graph = model.graph
    yield text(20, 34, "The model", 18, "start", font_weight="600")
    yield text(20, 56, "two samples: one number for both, or one for each", 13, "start", fill=FAINT)
    place = ((80, 190), (300, 90), (480, 270))
    dot = ((190, 110), (230, 300), (420, 150))  # of each choice
    yield '<g transform="translate(0, 62)">'
    lines = ("M105 172 L178 119", "M108 201 L217 293", "M331 98 Q375 105 410 143")
    arrows = ("M184 98 C165 35 75 60 78 150", "M201 107 L260 94", "M242 303 Q360 325 442 286", "M426 161 L462 229")
    yield from (path(line, arrow=False) for line in lines)
    yield from (path(line) for line in arrows)
    for s, (x, y) in enumerate(place):
        yield f'<circle cx="{x}" cy="{y}" r="34" fill="{STATES[s]}" stroke="{INK}" stroke-width="1.6"/>'
        if graph.goal[s]:
            yield f'<circle cx="{x}" cy="{y}" r="29" fill="none" stroke="{INK}"/>'
        yield text(x, y + 1, graph.state_name(s), 16)
        yield text(x, y + 17, f"state {s}", 12, fill=DARK[s])
    for c, (x, y) in enumerate(dot):
        yield f'<rect x="{x - 11}" y="{y - 11}" width="22" height="22" rx="4" fill="{INK}"/>'
        yield mono(x, y + 5, c, 14, fill=PAPER)
    names = [f"{graph.action_name(graph.action[c])}, cost {pair(model.cost[c])}" for c in range(graph.choices)]
    yield text(198, 147, names[0], 14, "start")
    yield text(228, 330, names[1], 14)
    yield text(437, 145, names[2], 14, "start")
    at = ((78, 66), (222, 82), (350, 298), (458, 196))
    for t, (x, y) in enumerate(at):
        yield text(x, y, pair(model.prob[t]), 14, fill=DARK[graph.successor[t]], font_weight="600")
    yield "</g>"


def ruler(x: list[float], y: float, name: str, values: list[int]) -> Iterator[str]:
    """Yield an array of pointers: its numbers stand at the gaps between cells."""
    yield mono(LEFT - 16, y + 5, name, 15, "end", font_weight="600")
    for at, value in zip(x, values, strict=True):
        yield f'<path d="M{at:g} {y - 21:g} V{y - 9:g} M{at:g} {y + 9:g} V{y + 21:g}" stroke="{FAINT}"/>'
        yield mono(at, y + 5, value, 15, font_weight="600")


def cells(x: list[float], y: float, name: str, values: list[object], fill: list[str]) -> Iterator[str]:
    """Yield an array as a row of cells between the places `x`."""
    yield mono(LEFT - 16, y + 22.5, name, 15, "end", font_weight="600")
    for begin, end, value, colour in zip(x[:-1], x[1:], values, fill, strict=True):
        yield box(begin, y, end - begin, colour, value)


def drawn_arrays(model: rue.UMDP) -> Iterator[str]:
    """Yield the arrays, one below the other: what belongs together is in one column."""
    graph = model.graph
    edge = [LEFT + CELL * float(t) for t in range(graph.transitions + 1)]
    choice = [edge[t] for t in graph.trans_ptr]
    state = [choice[c] for c in graph.choice_ptr]
    yield text(LEFT - 132, 34, "Its arrays", 18, "start", font_weight="600")
    yield text(LEFT - 132, 56, "pointers stand where the next group begins", 13, "start", fill=FAINT)
    yield text(LEFT - 16, 101, "states", 14, "end", fill=FAINT)
    state[-1] += GOAL
    tint = [STATES[s] for s in graph.choice_state]
    for s in range(graph.states):
        yield box(state[s], 78, state[s + 1] - state[s], STATES[s])
        middle = (state[s] + state[s + 1]) / 2
        yield mono(middle - 16, 100.5, s, 15, fill=DARK[s], font_weight="600")
        yield text(middle - 6, 100, graph.state_name(s), 14, "start")
    yield from ruler(state, 133, "choice_ptr", graph.choice_ptr.tolist())
    yield text(state[-2] + 8, 170, "no choices:", 12, "start", fill=DARK[-1])
    yield text(state[-2] + 8, 185, "a goal", 12, "start", fill=DARK[-1])
    yield text(LEFT - 16, 177, "choices", 14, "end", fill=FAINT)
    for c in range(graph.choices):
        yield box(choice[c], 154, choice[c + 1] - choice[c], tint[c])
        middle = (choice[c] + choice[c + 1]) / 2
        yield f'<rect x="{middle - 31}" y="161" width="20" height="20" rx="4" fill="{INK}"/>'
        yield mono(middle - 21, 176, c, 13, fill=PAPER)
        yield text(middle - 5, 176, graph.action_name(graph.action[c]), 14, "start")
    yield from cells(choice, 188, "action", graph.action.tolist(), tint)
    for k in range(model.samples):
        values = [f"{value:g}" for value in model.cost[:, k]]
        yield from cells(choice, 222 + ROW * k, f"cost[:, {k}]", values, [PAPER] * graph.choices)
    yield from ruler(choice, 311, "trans_ptr", graph.trans_ptr.tolist())
    yield from cells(edge, 332, "successor", graph.successor.tolist(), [STATES[s] for s in graph.successor])
    for k in range(model.samples):
        values = [f"{value:g}" for value in model.prob[:, k]]
        yield from cells(edge, 366 + ROW * k, f"prob[:, {k}]", values, [PAPER] * graph.transitions)
    yield text(LEFT - 132, 466, "choices of state s:", 13, "start", fill=FAINT)
    yield mono(LEFT + 22, 466, "choice_ptr[s] : choice_ptr[s+1]", 13, "start")
    yield text(LEFT - 132, 486, "transitions of choice c:", 13, "start", fill=FAINT)
    yield mono(LEFT + 22, 486, "trans_ptr[c] : trans_ptr[c+1]", 13, "start")


def drawing() -> str:
    """Return the picture."""
    model = example()
    words = "A model of three states, two samples and four transitions, drawn as a graph and as flat arrays"
    head = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"
 role="img" aria-label="{words}" font-family="system-ui, 'DejaVu Sans', Arial, sans-serif">
<title>{words}</title>
<style>.mono {{ font-family: SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace }}</style>
<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 L10 5 L0 10 z" fill="{INK}"/></marker></defs>
<rect width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>"""
    return "\n".join([head, *drawn_model(model), *drawn_arrays(model), "</svg>\n"])


if __name__ == "__main__":
    FILE.write_text(drawing(), encoding="utf-8")

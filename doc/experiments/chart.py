# SPDX-License-Identifier: GPL-2.0-or-later
"""Line charts as SVG, readable on light and dark pages."""
import html
import math

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9")
WIDTH, HEIGHT = 860, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 62, 46
STYLE = """
 svg { background: #fff; font: 13px system-ui, sans-serif; }
 text { fill: #222; } .grid { stroke: #ddd; } .axis { stroke: #666; }
 .mark { stroke: #888; stroke-dasharray: 4 4; } .title { font-size: 15px; font-weight: 600; }
 .level { paint-order: stroke; stroke: #fff; stroke-width: 4px; }
 @media (prefers-color-scheme: dark) {
  svg { background: #15181c; } text { fill: #e4e6e8; } .grid { stroke: #333a41; }
  .axis, .mark { stroke: #9aa1a8; } .level { stroke: #15181c; } }
"""


def steps(maximum, count=5):
    """Round numbers from 0 to at least `maximum`."""
    raw = maximum / count
    size = 1.0
    while size * 10 <= raw:
        size *= 10
    while size > raw:
        size /= 10
    for factor in (1, 2, 5, 10):
        if size * factor >= raw:
            size *= factor
            break
    ticks = [0.0]
    while ticks[-1] < maximum - 1e-9:
        ticks.append(ticks[-1] + size)
    return ticks


def plain(value):
    return f"{value:g}"


def draw(path, title, lines, x_label, y_label, x_ticks, y_ticks, marks=(), levels=()):
    """`lines`: (name, points); `x_ticks` and `y_ticks`: (value, text); `marks`: vertical lines,
    `levels`: horizontal ones, (value, text) each."""
    x_low, x_high = x_ticks[0][0], x_ticks[-1][0]
    y_low, y_high = y_ticks[0][0], y_ticks[-1][0]

    def x_of(value):
        return LEFT + (value - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def y_of(value):
        return HEIGHT - BOTTOM - (value - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
           f"<title>{html.escape(title)}</title><style>{STYLE}</style>",
           f'<text class="title" x="{LEFT}" y="22">{html.escape(title)}</text>']
    for value, text in y_ticks:
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(value):.1f}" '
                   f'y2="{y_of(value):.1f}"/><text x="{LEFT - 8}" y="{y_of(value) + 4:.1f}" '
                   f'text-anchor="end">{html.escape(text)}</text>')
    for value, text in x_ticks:
        out.append(f'<line class="axis" x1="{x_of(value):.1f}" x2="{x_of(value):.1f}" '
                   f'y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 5}"/>'
                   f'<text x="{x_of(value):.1f}" y="{HEIGHT - BOTTOM + 19}" '
                   f'text-anchor="middle">{html.escape(text)}</text>')
    out.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{HEIGHT - BOTTOM}" '
               f'y2="{HEIGHT - BOTTOM}"/>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 8}" '
               f'text-anchor="middle">{html.escape(x_label)}</text>')
    out.append(f'<text transform="translate(15 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" '
               f'text-anchor="middle">{html.escape(y_label)}</text>')
    for value, text in marks:
        out.append(f'<line class="mark" x1="{x_of(value):.1f}" x2="{x_of(value):.1f}" y1="{TOP}" '
                   f'y2="{HEIGHT - BOTTOM}"/><text x="{x_of(value) + 4:.1f}" y="{TOP + 12}">'
                   f'{html.escape(text)}</text>')
    for value, text in levels:
        out.append(f'<line class="mark" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(value):.1f}" '
                   f'y2="{y_of(value):.1f}"/>')
    over = [f'<text class="level" x="{LEFT + 6}" y="{y_of(value) - 5:.1f}">{html.escape(text)}'
            "</text>" for value, text in levels]
    at = LEFT
    for number, (name, points) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        path_text = " ".join(f"{x_of(x):.1f},{y_of(min(max(y, y_low), y_high)):.1f}"
                             for x, y in points)
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" '
                   f'points="{path_text}"/>')
        out.append(f'<rect x="{at}" y="36" width="18" height="4" fill="{colour}"/>'
                   f'<text x="{at + 24}" y="43">{html.escape(name)}</text>')
        at += 24 + 7.2 * len(name) + 24
    out += [*over, "</svg>"]
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n")


def over_days(path, title, series, bin_seconds, y_label, marks=(), levels=()):
    """GPUs by stretches of time: (name, values)."""
    lines = []
    for name, values in series:
        points = []
        for number, value in enumerate(values):
            points += [(number * bin_seconds / 86400, value),
                       ((number + 1) * bin_seconds / 86400, value)]
        lines.append((name, points))
    days = max(len(values) for _, values in series) * bin_seconds / 86400
    top = max([value for _, values in series for value in values] + [v for v, _ in levels])
    by = 1 if days <= 14 else 7
    x_ticks = [(day, str(day)) for day in range(0, int(days + 0.999) + 1, by)]
    draw(path, title, lines, "day", y_label, x_ticks, [(v, plain(v)) for v in steps(top)], marks,
         levels)


WAIT_TICKS = ((10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (6 * 3600, "6 h"),
              (86400, "1 d"), (7 * 86400, "7 d"))


def wait_curves(path, title, series):
    """What part of the jobs has waited no longer: (name, waits in seconds)."""
    lines = []
    for name, waits in series:
        waits = sorted(max(wait, 10) for wait in waits)
        points = []
        for number, wait in enumerate(waits):
            if number + 1 < len(waits) and waits[number + 1] == wait:
                continue
            part = 100.0 * (number + 1) / len(waits)
            x = math.log10(wait)
            if not points or x - points[-1][0] > 0.004 or number + 1 == len(waits):
                if points:
                    points.append((x, points[-1][1]))
                points.append((x, part))
        points = [(1.0, points[0][1] if points[0][0] <= 1.0 else 0.0)] + points
        lines.append((name, points))
    draw(path, title, lines, "wait, at most", "% of the jobs",
         [(math.log10(seconds), text) for seconds, text in WAIT_TICKS],
         [(value, str(value)) for value in (0, 25, 50, 75, 90, 100)])

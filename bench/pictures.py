"""Makes the moving picture of the README: a real training under gpustall torch, in a terminal of tmux, as an animated SVG.

make pictures PYTHON=...  needs tmux, and a Python with PyTorch. Waits between frames are cut to PACE.
"""

import argparse
import html
import os
import re
import subprocess
import sys
import tempfile
import time

COLUMNS, LINES = 100, 36
CELL, ROW = 7.2, 15  # pixels of a character and of a line
PACE, END = 0.8, 4.0  # seconds that a frame is shown, and the last one
FRAMES = 4  # at the most of one scene
TRAINING = '''import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        time.sleep(0.02)  # as a busy network disk
        return torch.randn(3, 32, 32), i % 10


model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in DataLoader(Photos(), batch_size=8, shuffle=True):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''
BASE = ["#000000", "#cc5555", "#55aa55", "#ccaa44", "#5588dd", "#aa66cc", "#44aaaa", "#cccccc"]
BRIGHT = ["#666666", "#ff7777", "#77dd77", "#ffdd66", "#77aaff", "#dd88ff", "#66dddd", "#ffffff"]
INK, PAPER = "#d0d0d0", "#16181a"


def colour(n):
    """Is an xterm colour."""
    if n < 16:
        return (BASE + BRIGHT)[n]
    if n >= 232:
        return "#" + f"{8 + 10 * (n - 232):02x}" * 3
    n -= 16
    return "#" + "".join(f"{55 + 40 * v if v else 0:02x}" for v in (n // 36, n // 6 % 6, n % 6))


def runs(line):
    """Yields the parts of a captured line: column, text, ink, paper, bold."""
    at, ink, paper, bold, reverse = 0, INK, None, False, False
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if not part.startswith("\x1b"):
            if part:
                yield at, part, *((paper or PAPER, ink) if reverse else (ink, paper)), bold
                at += len(part)
            continue
        codes = [int(c or 0) for c in part[2:-1].split(";")]
        while codes:
            c = codes.pop(0)
            if c in (38, 48):
                if codes.pop(0) == 5:
                    to = colour(codes.pop(0))
                else:
                    to = "#" + "".join(f"{codes.pop(0):02x}" for _ in range(3))
                ink, paper = (to, paper) if c == 38 else (ink, to)
            elif c == 0:
                ink, paper, bold, reverse = INK, None, False, False
            elif c in (1, 22):
                bold = c == 1
            elif c in (7, 27):
                reverse = c == 7
            elif 30 <= c < 38 or 90 <= c < 98:
                ink = (BASE if c < 90 else BRIGHT)[c % 10]
            elif 40 <= c < 48 or 100 <= c < 108:
                paper = (BASE if c < 48 else BRIGHT)[c % 10]
            elif c == 39:
                ink = INK
            elif c == 49:
                paper = None


def drawn(line, classes):
    """Is a captured line as SVG, at the top. It adds the styles that it has to classes."""
    out, text, end = [], "", 0
    for at, part, ink, paper, bold in runs(line):
        if paper:
            out.append(f'<rect x="{at * CELL:.1f}" width="{len(part) * CELL:.1f}" height="{ROW}" fill="{paper}"/>')
        style = f"fill:{ink}" + (";font-weight:bold" if bold else "")
        shown = html.escape(part).replace(" ", "\xa0")  # not all browsers keep spaces
        text += shown if style == f"fill:{INK}" or not part.strip() else f'<tspan class="{classes.setdefault(style, f"c{len(classes)}")}">{shown}</tspan>'
        end = at + len(part)
    if re.sub("<[^>]*>", "", text).strip():
        out.append(f'<text y="11.5" textLength="{end * CELL:.1f}">{text}</text>')
    return "".join(out)


def svg(frames):
    """Is the moving picture of frames, which are captions and lines. What stays is drawn once."""
    total = PACE * (len(frames) - 1) + END
    seen = {}  # what is drawn, by row: the frames that show it
    for i, (caption, lines) in enumerate(frames):
        for row, line in enumerate([*lines, f"\x1b[1;97;48;5;24m  {caption}".ljust(COLUMNS + 16)]):
            seen.setdefault((row, line), []).append(i)
    classes, groups = {}, []
    width, height = COLUMNS * CELL + 16, (LINES + 1) * ROW + 16
    for (row, line), shown in seen.items():
        body = drawn(line, classes)
        if not body:
            continue
        move = f'<g transform="translate(8 {8 + row * ROW})"'
        if len(shown) == len(frames):
            groups.append(f"{move}>{body}</g>")
            continue
        changes = [i for i in range(len(frames)) if i == 0 or (i in shown) != (i - 1 in shown)]
        times = ";".join(f"{PACE * i / total:.4g}" for i in changes)
        values = ";".join("visible" if i in shown else "hidden" for i in changes)
        first = "" if 0 in shown else ' visibility="hidden"'
        groups.append(
            f'{move}{first}>{body}<animate attributeName="visibility" calcMode="discrete" dur="{total:.1f}s" '
            f'repeatCount="indefinite" keyTimes="{times}" values="{values}"/></g>'
        )
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        'font-family="ui-monospace, \'DejaVu Sans Mono\', Menlo, Consolas, monospace" '
        f'font-size="12" fill="{INK}" role="img" aria-label="{html.escape(" ".join(dict.fromkeys(c for c, _ in frames)))}">',
        "<style>" + "".join(f".{name}{{{style}}}" for style, name in classes.items()) + "</style>",
        f'<rect width="100%" height="100%" rx="6" fill="{PAPER}"/>',
    ]
    return "\n".join([*out, *groups, "</svg>", ""])


class Terminal:
    """Is a terminal of tmux, of a server of its own."""

    def __init__(self, command, folder):
        self.tmux = ["tmux", "-L", f"gpustall-{os.getpid()}"]
        environ = dict(os.environ, XDG_STATE_HOME=folder, COLORTERM="", TERM="xterm-256color", OMP_NUM_THREADS="1")
        subprocess.run([*self.tmux, "-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES), command], check=True, cwd=folder, env=environ)
        subprocess.run([*self.tmux, "set", "-g", "status", "off"], check=True)

    def lines(self):
        got = subprocess.run([*self.tmux, "capture-pane", "-p", "-e"], check=True, capture_output=True, text=True).stdout
        return got.split("\n")[:LINES]

    def press(self, *keys):
        subprocess.run([*self.tmux, "send-keys", *keys], check=True)

    def close(self):
        subprocess.run([*self.tmux, "kill-server"], check=False)

    def scene(self, caption, until, least=2.0, most=60.0):
        """Returns frames until a pattern is on the screen, and at least for some seconds."""
        frames, begun = [], time.monotonic()
        while True:
            lines = self.lines()
            if not frames or lines != frames[-1][1]:
                frames.append((caption, lines))
            plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(lines))
            spent = time.monotonic() - begun
            if spent >= least and re.search(until, plain):
                break
            if spent > most:
                sys.exit(f"{caption!r}: no {until!r} on the screen after {most} s:\n{plain}")
            time.sleep(0.5)
        step = max(1, -(-len(frames) // FRAMES))
        return frames[::-1][::step][::-1]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--gpustall", required=True, help="the binary")
    arguments.add_argument("--out", required=True, help="the SVG to write")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "train.py"), "w") as f:
            f.write(TRAINING)
        terminal = Terminal(f"{os.path.abspath(options.gpustall)} torch -- {sys.executable} train.py", folder)
        try:
            frames = terminal.scene("gpustall torch -- python train.py", r"Next\s+try num_workers", least=6)[-4:]
            frames += terminal.scene("The verdict names the line of code that the device waits for, and what to try next.", r"Next\s+try num_workers", least=3)
            terminal.press("3", "Enter")
            frames += terminal.scene("3 and enter stage the advice, with what it is predicted to bring.", r"staged|enter apply", least=3)
            terminal.press("Enter")
            frames += terminal.scene("enter applies it at the next batch, while the training goes on.", r"#1", least=8)
            frames += terminal.scene("Before and after, measured. A proves it, u undoes it.", r"#1.*\+?\d", least=10)
            terminal.press("q")
            time.sleep(1)
            terminal.press("y")
            time.sleep(3)
        finally:
            terminal.close()
    with open(options.out, "w") as f:
        f.write(svg(frames))
    print(f"{options.out}: {len(frames)} frames, {os.path.getsize(options.out)} bytes")


if __name__ == "__main__":
    main()

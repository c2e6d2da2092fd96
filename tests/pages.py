"""Pages of the documentation, run as a reader would: every block in order, each output compared with the one shown."""

import re
import runpy
import shlex
import sys

from rue import checker, cli

# A block of Python with the output below it, if one is shown, or commands with their outputs.
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n(<!-- varies -->\n)?```\n(.*?)```\n)?|```console\n(.*?)```\n", re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
ANY = "..."


def run_page(text, monkeypatch, capsys, within=0.0):
    """Run all blocks of a page and return the names that its Python has made.

    Outputs must be as they are shown, but for numbers, which may differ by a part `within`, and for `...`, which
    stands for any letters of a word, or on a line of its own for any lines. What is marked as varying is only run.
    """
    monkeypatch.setenv("COLUMNS", "100")
    names = {}
    blocks = BLOCK.findall(text)
    assert blocks
    for code, varies, shown, commands in blocks:
        if commands:
            for command, output in split_commands(commands):
                run_command(command, monkeypatch)
                compare(capsys.readouterr().out, output, within)
            continue
        exec(compile(code, "page", "exec"), names)
        printed = capsys.readouterr().out
        if not varies and shown:
            compare(printed, shown, within)
    return names


def split_commands(text):
    """Return pairs of a command, without its `$`, and the output below it."""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    assert not parts[0], "a block of commands begins with one"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def run_command(line, monkeypatch):
    """Run `rue …`, `python -m rue.checker …` or `python FILE` in this process; it must end with status 0."""
    words = shlex.split(line)
    if words[0] == "python" and len(words) == 2:
        runpy.run_path(words[1])
        return
    if words[:3] == ["python", "-m", "rue.checker"]:
        assert checker.main(words[3:]) == 0
        return
    assert words[0] == "rue", line
    monkeypatch.setattr(sys, "argv", words)
    try:
        cli.main()
    except SystemExit as status:
        assert not status.code, line


def compare(printed, shown, within):
    """Compare an output with the one that is shown."""
    now = [line.rstrip() for line in printed.splitlines()]
    for line in (line.rstrip() for line in shown.splitlines()):
        if line == ANY:
            now.insert(0, ANY)
            continue
        if now[:1] == [ANY]:
            now = next((now[i:] for i in range(1, len(now)) if same(now[i], line, within)), [])
        assert now, f"not printed: {line}"
        assert same(now[0], line, within), f"{now[0]!r} was printed; {line!r} is shown"
        del now[0]
    assert not now or now[0] == ANY, f"also printed: {now[0]}"


def same(printed, shown, within):
    """Return whether two lines have the same words, up to `within` where they are numbers."""
    now, was = printed.split(), shown.split()
    return len(now) == len(was) and all(map(same_word, now, was, [within] * len(was)))


def same_word(now, was, within):
    """Return whether two words agree: numbers up to `within`, with the same signs before and after them."""
    if re.fullmatch(".*".join(map(re.escape, was.split(ANY))), now):
        return True
    numbers = NUMBER.findall(now), NUMBER.findall(was)
    if not within or NUMBER.sub("", now) != NUMBER.sub("", was) or len(numbers[0]) != len(numbers[1]):
        return False
    return all(abs(float(a) - float(b)) <= within * max(abs(float(b)), 0.1) for a, b in zip(*numbers, strict=True))

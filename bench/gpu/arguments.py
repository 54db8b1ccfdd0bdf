"""The command line of contestants.py. A mistake in it is one line on stderr and exit status 2."""

import argparse
import re


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: error: {message}\n")


def parser(about, passes):
    found = Parser(prog="contestants.py", description=about)
    found.add_argument("--library", default="build/src/libvsa.so")
    found.add_argument("--backend", default="cuda", choices=["cuda", "cpu", "reference"])
    found.add_argument("--cases", default="", type=pattern, help="regular expression that case names match")
    found.add_argument("--passes", default="forward", choices=passes, help="what is timed")
    found.add_argument("--others", default="", type=pattern,
                       help="regular expression that compared contestants match; ^$ for none of them")
    found.add_argument("--repeats", type=count, default=24)
    found.add_argument("--sets", type=count, default=3, help="sets of inputs that rounds rotate over")
    found.add_argument("--budget-s", type=seconds, default=1e9, help="no case starts later than this")
    found.add_argument("--commit", help="the source of libvsa, where git does not know it")
    return found


def pattern(text):
    try:
        return re.compile(text)
    except re.error as e:
        raise argparse.ArgumentTypeError(f"invalid regular expression '{text}': {e}") from e


def count(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text}")
    return int(text)


def seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:  # as NaN is not
        raise argparse.ArgumentTypeError(f"expected a positive number of seconds, got {text}")
    return value


def chosen(parser, option, wanted, names, none=None):
    """Those of the names that the pattern `wanted` matches. None is a mistake, unless it matches `none`."""
    found = [name for name in names if wanted.search(name)]
    if not found and (none is None or not wanted.search(none)):
        parser.error(f"argument {option}: '{wanted.pattern}' matches none of {', '.join(names)}")
    return found

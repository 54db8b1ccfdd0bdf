"""The command line of contestants.py. A mistake in it is one line on stderr and exit status 2."""

import argparse
import re

# What docs/performance.md shows: 12.5 % kept of every shape, and all shares of the first one. FlexAttention is left
# out, as it searches for its kernel for a quarter of a minute in every case.
PAGE = {"cases": r"kept12\.5/|s32768_h12_d128_t64/", "passes": "both", "others": "gemm|dense|fastvideo"}
DEFAULTS = {"cases": "", "passes": "forward", "others": ""}


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: error: {message}\n")


def parser(about, passes):
    found = Parser(prog="contestants.py", description=about)
    found.add_argument("--library", default="build/src/libvsa.so")
    found.add_argument("--backend", default="cuda", choices=["cuda", "cpu", "reference"])
    found.add_argument("--page", action="store_true", help="the cases, passes and others of docs/performance.md")
    found.add_argument("--cases", type=pattern, help="regular expression that case names match (default: all)")
    found.add_argument("--passes", choices=[*passes, "both"], help="what is timed (default: forward)")
    found.add_argument("--others", type=pattern,
                       help="regular expression that compared contestants match; ^$ for none of them")
    found.add_argument("--repeats", type=count, default=24)
    found.add_argument("--sets", type=count, default=3, help="sets of inputs that rounds rotate over")
    found.add_argument("--budget-s", type=seconds, default=1e9, help="no case starts later than this")
    found.add_argument("--commit", help="the source of libvsa, where git does not know it")
    return found


def parsed(parser, argv):
    """The options; what is not given is the page's with --page."""
    options = parser.parse_args(argv)
    for name, default in (PAGE if options.page else DEFAULTS).items():
        if getattr(options, name) is None:
            setattr(options, name, default if name == "passes" else pattern(default))
    return options


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

"""The errors of the package, as one tree.

    RheostatError                any error a user can cause; the command line prints it in one line
    ├── CorpusError              text that cannot be used: missing split, empty file, not UTF-8, …
    ├── RecipeError              a recipe or a policy with an unknown key, a wrong type or an impossible value
    ├── ModelFileError           a model file that is damaged, of another kind or of a newer version
    ├── OperatingPointError      a knob position or a point that the model cannot serve
    ├── CheckpointError          a run that cannot be resumed
    ├── ExportError              a folder that an export cannot be written to
    ├── PrecisionError           a precision that the runtime does not support
    ├── UserWordsError           a word that cannot be learned, or a file of words that cannot be used
    ├── MeterError               a meter that is unknown, missing, or stopped in the middle of a run
    └── MissingExtraError        an optional library is missing or broken; the message names the extra

    RheostatWarning              something was done differently from what was asked; the message says why

Every message says what was found, what was expected and what to do. It may quote a file, so control characters are
shown as escapes: a file cannot write to the terminal of whoever reads the message.
"""

from __future__ import annotations

_JOINERS = "\u200c\u200d"  # invisible, but letters of many scripts and emoji need them


def visible(text: str) -> str:
    """A text without control characters: they are shown as escapes, so it stays on its line and moves no cursor."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in _JOINERS else ascii(one)[1:-1] for one in text)


def encode_text(text: str) -> bytes:
    """A text as UTF-8. What UTF-8 cannot hold, as in file names that are not UTF-8, is written as escapes of JSON."""
    return text.encode(errors="backslashreplace")


def counted(number: int, noun: str) -> str:
    """As in "1 point" and "3 points"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def show(value: object) -> str:
    """A value from a file, for a message: one short line whatever it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list of lists of lists …
        text = f"a {type(value).__name__}"
    return shorten(text)


def shorten(text: str, most: int = 60) -> str:
    """A text from a file, for a message: its beginning, if it is longer than this."""
    return text if len(text) <= most else f"{text[: most - 3]}…"


class RheostatError(Exception):
    """Base class of every error that a user of this package can cause."""

    def __str__(self) -> str:
        return visible(super().__str__())


class CorpusError(RheostatError):
    """Text that cannot be used as a corpus."""


class RecipeError(RheostatError):
    """A recipe, a change by `--set`, or a policy that is not valid."""


class ModelFileError(RheostatError):
    """A file that is not a usable model file."""


class OperatingPointError(RheostatError):
    """A knob position, a ranking or a point that this model does not have.

    smallest: the smallest position that it has, if the one asked for is below it.
    """

    smallest: float | None = None


class CheckpointError(RheostatError):
    """A run that cannot be resumed."""


class ExportError(RheostatError):
    """A folder that an export cannot be written to."""


class PrecisionError(RheostatError):
    """A precision that the runtime does not support."""


class UserWordsError(RheostatError):
    """A word that cannot be learned, or a file of words that cannot be used."""


class MeterError(RheostatError):
    """A meter that is unknown, missing, or stopped in the middle of a run."""


class MissingExtraError(RheostatError, ImportError):
    """An optional library is missing, or is there but cannot be loaded."""

    def __init__(self, extra: str, purpose: str, cause: ImportError) -> None:
        needed, how = f"{purpose} needs the '{extra}' extra", "pip install"
        if not isinstance(cause, ModuleNotFoundError | MissingExtraError):  # a library of the system is missing, say
            needed += f", which is installed but cannot be loaded ({' '.join(str(cause).split())})"
            how += " --force-reinstall"
        super().__init__(f"{needed}: {how} 'rheostat[{extra}]'")
        self.extra = extra


class NotCopyable:
    """Something open. A copy of it would use, and close, what belongs to the original: it is refused instead."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> str:
        """Called by copy, deepcopy and pickle."""
        raise RheostatError(
            f"a {type(self).__name__} cannot be copied or pickled: it holds memory, locks or a file that a copy would "
            "take away; expected one to be made where it is needed: load or open it again"
        )


class RheostatWarning(UserWarning):
    """Something was done differently from what was asked."""

    def __str__(self) -> str:
        return visible(super().__str__())

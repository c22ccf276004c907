"""What ends a command early: above all a user's mistake, said in one sentence."""

from collections.abc import Iterable


class Mistake(Exception):
    """Bad input from the user: the command prints it on one line and exits with code 2, before any work starts."""


class Unfinished(Exception):
    """Work that could not be finished, through no mistake of the user's: one line, exit code 1."""


def words(error: BaseException) -> str:
    """What an exception says, on one line and without its full stop; the name of its kind where it says nothing."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def unknown(key: str, value: object, legal: Iterable[object]) -> Mistake:
    """Build the mistake of a value outside a finite set; the set is listed, in order, up to forty names."""
    names = [str(name) for name in legal]
    shown = ", ".join(names[:40]) + (f", … ({len(names)} in all)" if len(names) > 40 else "")
    return Mistake(f"{key}: {value!r} is not one of: {shown}.")


def at_least(key: str, value: int, least: int) -> None:
    """Refuse a number below the least legal one."""
    if value < least:
        raise Mistake(f"{key}: {value} is below the least legal value, {least}.")

"""What the client libraries of the hub raise, as one sentence; a token is in none of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from rllc import atomic
from rllc.mistake import Mistake

NETWORK = ("httpx", "httpx2", "httpcore", "requests", "urllib3", "aiohttp")


class Unreached(Mistake):
    """The hub gave no answer."""


@contextmanager
def said(repo: str, revision: str = "", name: str = "", *, key: str = "source.repos") -> Iterator[None]:
    """Turn what the client libraries raise into one sentence; a token is in none of them."""
    try:
        import huggingface_hub  # noqa: F401
    except ImportError:
        raise Mistake(f"{key}: {repo!r} needs the package huggingface_hub: install rllc[hub].") from None
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError:
        raise Mistake(
            f"{key}: {repo} is gated: accept its terms on its page, then set HF_TOKEN or run `hf auth login`."
        ) from None
    except errors.RepositoryNotFoundError:
        raise Mistake(
            f"{key}: there is no repository {repo} on the hub, or it is private and HF_TOKEN is not set."
        ) from None
    except errors.RevisionNotFoundError:
        raise Mistake(f"{key}: {repo} has no revision {revision!r}.") from None
    except errors.HFValidationError:
        raise Mistake(f"{key}: {repo!r} is not the id of a repository, as EleutherAI/pythia-70m.") from None
    except errors.LocalEntryNotFoundError:
        raise unreached(repo, revision, name, key=key) from None
    except errors.EntryNotFoundError:
        raise Mistake(f"{key}: {repo} has no file {name!r} at revision {revision!r}.") from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno in atomic.FULL:
            raise
        if isinstance(error, ConnectionError | errors.HfHubHTTPError) or network(error):
            raise unreached(repo, revision, name, key=key) from None
        raise


def unreached(repo: str, revision: str = "", name: str = "", *, kind: str = "", key: str = "source.repos") -> Unreached:
    """The sentence for a hub that gives no answer: what was wanted, and how to have it there before."""
    words = [f"hf download {repo}", name, f"--revision {revision}" if revision not in ("", "main") else "", kind]
    return Unreached(
        f"{key}: {repo} cannot be reached, and {name or 'it'} is not in the cache; where there is a network, run "
        f"`{' '.join(word for word in words if word)}`, and set HF_HOME to the same folder here."
    )


def network(error: BaseException) -> bool:
    """Whether an error is of a package that speaks to the network."""
    return any(kind.__module__.partition(".")[0] in NETWORK for kind in type(error).__mro__)

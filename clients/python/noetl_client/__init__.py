"""A typed client of the NoETL HTTP API, generated from its document. Standard library only."""

from . import models
from ._http import NoetlError, ProblemError, Unreachable
from .client import Client

__all__ = ["Client", "NoetlError", "ProblemError", "Unreachable", "models"]

"""Typed client for the NoETL HTTP API, generated from its OpenAPI document."""

from . import models
from ._http import NoetlError, ProblemError, UnreachableError
from .client import Client

__all__ = ["Client", "NoetlError", "ProblemError", "UnreachableError", "models"]

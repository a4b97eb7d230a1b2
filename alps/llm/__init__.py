"""One typed completion over litellm and instructor: `Client.complete`."""

from alps.llm.client import Client
from alps.llm.types import AnswerType, Completion, Read, Request

__all__ = ["AnswerType", "Client", "Completion", "Read", "Request"]

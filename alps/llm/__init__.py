"""One typed completion over litellm and instructor: `alps.llm.client.Client.complete`."""

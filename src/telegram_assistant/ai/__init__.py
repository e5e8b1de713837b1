"""Models: tag, describe a picture, embed, answer; each by three providers (local, GigaChat, OpenAI-compatible)."""

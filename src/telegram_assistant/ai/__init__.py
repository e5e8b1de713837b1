"""Models that tag, describe a picture, embed and answer: local ones, GigaChat, and any server like OpenAI's."""

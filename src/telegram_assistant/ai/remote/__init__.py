"""Models of other companies, asked over HTTP: GigaChat, and any server that speaks OpenAI's API."""

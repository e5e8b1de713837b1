"""The HTTP API, and the application that serves it together with the pages."""

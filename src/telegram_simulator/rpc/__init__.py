"""What each request is answered with, by topic."""

"""Texts as language: what a reader sees, words and their forms, topics, and how texts and queries become lexemes."""

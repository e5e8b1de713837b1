"""How posts are found: words and meaning fused, filters, stories, snippets, answers with their sources."""

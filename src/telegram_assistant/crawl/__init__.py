"""Pages that posts link to: fetched safely, read as text."""

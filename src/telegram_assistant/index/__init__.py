"""Where posts are found: vectors (Qdrant Edge or Qdrant), a graph (Ladybug or Neo4j)."""

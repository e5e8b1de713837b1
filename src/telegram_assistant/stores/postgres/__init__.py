"""PostgreSQL, which holds the truth: migrations, and one module of queries for each thing that is stored."""

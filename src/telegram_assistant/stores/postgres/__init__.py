"""The truth: PostgreSQL. Tables, migrations and the queries, by noun."""

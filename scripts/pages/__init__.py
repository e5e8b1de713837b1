"""What the documentation takes from the code and from the benchmarks, so that it cannot say anything else."""

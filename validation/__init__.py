"""Studies and benchmarks; each module says which command remakes its results."""

"""Labels that are accepted with a bound on the expected share of wrong ones, on real data: how large that share is."""

"""What unlabeled rows are worth: calibration of the posterior with their labels integrated out, and a model that is wrong."""

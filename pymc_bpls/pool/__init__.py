"""What unlabeled rows tell a model: how much, and the posterior with their labels integrated out."""

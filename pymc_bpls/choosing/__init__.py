"""Which pipeline to use: the supervised model, unless labeled rows prove that another one predicts better."""

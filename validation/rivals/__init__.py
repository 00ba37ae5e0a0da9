"""What self-training is worth beside other uses of unlabeled rows: `python -m validation.rivals`."""

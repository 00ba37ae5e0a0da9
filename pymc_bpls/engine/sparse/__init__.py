"""Models whose rows touch few of many parameters: designs, curvatures and refits without a matrix over all parameters."""

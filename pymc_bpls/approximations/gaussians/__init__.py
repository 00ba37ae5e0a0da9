"""What a Gaussian approximation is: of few parameters, of many by sparse factors, and mixtures of them."""

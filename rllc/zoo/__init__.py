"""Training runs that rllc can read: which steps there are, and the weights of one of them."""

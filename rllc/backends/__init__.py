"""What runs the chains: one module a backend, all under the contract of `rllc.backends.contract`."""

"""The configuration files, importable as the package rllc.conf."""

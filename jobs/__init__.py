"""What a cluster sees: the scripts that are submitted, filled in by `rllc.launch.script`."""

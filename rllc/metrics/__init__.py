"""What can be measured of a part: one module a metric, each with `measure(task, pool) -> Estimate`."""

"""What every tool works with: a task, its limits, its interruption and its history."""

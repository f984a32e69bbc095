"""What must hold against code that runs inside an environment, and against other users."""

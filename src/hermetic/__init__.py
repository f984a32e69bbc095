"""The execution layer for AI agents: where their commands, scripts and background processes run."""

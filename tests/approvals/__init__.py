"""Who may allow what."""

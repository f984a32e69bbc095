"""What programs do, one file per family; each rule carries examples of what it catches and what it spares."""

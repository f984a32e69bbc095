"""Our own backends put to the behaviour suite, the way somebody else would put theirs."""

"""Which of a session's variables a script gets: these names and those that were declared, no others."""

KEPT: tuple[str, ...] = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TMP", "TEMP", "TZ",
    "LANG", "LANGUAGE", "LC_ALL", "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT",
    "LC_MESSAGES", "LC_MONETARY", "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
    "XDG_CACHE_HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "XDG_DATA_DIRS", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "PYTHONPATH", "PYTHONHOME", "PYENV_ROOT", "PYENV_VERSION", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
    "CONDA_EXE", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip


def added(timezone: str | None) -> dict[str, str]:
    """What every script gets besides."""
    return {"PYTHONDONTWRITEBYTECODE": "1", **({"TZ": timezone} if timezone else {})}

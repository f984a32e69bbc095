"""Advice on commands that do not end or leave something behind: a hint, never a refusal, and none
without a reason.
"""

import pytest

from hermetic.tools.terminal.advice import foreground_hint


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("sleep 100 &", "`&` leaves a job behind"),
        ("python server.py > log 2>&1 &", "`&` leaves a job behind"),
        ("./serve & sleep 1; curl localhost", "`&` leaves a job behind"),
        ("cd app && npm start &", "the whole chain is the job"),
        ("nohup make all", "`nohup` is not needed"),
        ("setsid -f ./daemon", "`setsid` is not needed"),
        ("sudo nohup ./daemon", "`nohup` is not needed"),
        ("./x & disown", "`disown` is not needed"),
        ("npm run dev", "`npm run dev` runs until"),
        ("cd web && PORT=3000 npm run dev -- --host", "`npm run dev` runs until"),
        ("npx vite", "`vite` runs until"),
        ("npx -y next dev", "`next dev` runs until"),
        ("python3 -m http.server 8000", "`python -m http.server` runs until"),
        ("python manage.py runserver", "`manage.py runserver` runs until"),
        ("poetry run uvicorn app:app --reload", "`uvicorn` runs until"),
        ("python -m uvicorn app:app", "`uvicorn` runs until"),
        ("bundle exec rails s", "`rails s` runs until"),
        ("php artisan serve", "`artisan serve` runs until"),
        ("php -S localhost:8000", "`php -S` runs until"),
        ("tail -n 50 -f log", "`tail -f` runs until"),
        ("tail -50f log", "`tail -f` runs until"),
        ("docker compose up", "`docker compose up` runs until"),
        ("kubectl -n x logs -f pod", "`kubectl logs -f` runs until"),
        ("bash -lc 'cd x && flask run'", "`flask run` runs until"),
        ("watch -n1 date", "`watch` runs until"),
    ],
)
def test_it_gets_a_hint_that_says_what_to_do(command: str, says: str) -> None:
    hint = foreground_hint(command)
    assert hint is not None
    assert says in hint
    assert "background=true" in hint


@pytest.mark.parametrize("command", ["vim a.py", "cd x && nano b", "sudo vi /etc/hosts", "htop"])
def test_a_program_that_draws_on_a_terminal_is_told_to_have_one(command: str) -> None:
    hint = foreground_hint(command)
    assert hint is not None
    assert "pty=true" in hint
    assert foreground_hint(command, pty=True) is None


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "vim -es -c '%s/a/b/' -c wq a.txt",
        "vim --version",
        "emacs --batch -l x.el",
        "top -bn1 -b",
        "apt-get install -y vim",
        "grep -rn vim .",
        "echo 'npm run dev'",
        "grep -rn 'npm run dev' README.md",
        "git commit -m 'start the dev server &'",
        "cat > Procfile <<'E'\nweb: uvicorn app:app &\nE",
        "npm run dev --help",
        "vite --version",
        "uvicorn --help",
        "nohup --help",
        "npm run build",
        "npx vite build",
        "npm install vite",
        "pip install uvicorn gunicorn",
        "which uvicorn",
        "make -j4 2>&1",
        "make &> log",
        "a & b & wait",
        "docker compose up -d",
        "redis-server --daemonize yes",
        "gunicorn app:app --daemon",
        "tail -n 5 log",
        "tail log.f",
        "uv pip install uvicorn",
        "python -m pytest",
        "node server.test.js",
        "echo a && echo b",
        "x='nohup y &'",
        "",
        "echo 'unclosed",
    ],
)
def test_a_harmless_command_gets_none(command: str) -> None:
    assert foreground_hint(command) is None

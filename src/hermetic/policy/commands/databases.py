"""Database clients: the SQL or commands they are given."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.destroys import SQL_DESTROYS, SQL_LOCAL
from hermetic.policy.effects import read, write
from hermetic.policy.marks import DECODED, LOCAL, NET, UNSET, is_known, marks_in
from hermetic.policy.network import check_sent
from hermetic.policy.options import parse_options
from hermetic.policy.script_code import judge_code
from hermetic.policy.sql import destruction
from hermetic.policy.sql_strings import built_destruction, expand, printed
from hermetic.policy.tables import names

from .unseen import OPTION_RUNS, execute, is_wholly_unseen, run_code

_WRITES = re.compile(
    r"\\[ow]\s+(/[^\s|]+)|(?:outfile|dumpfile|lo_export\s*\([^,]*,|\bcopy\b[^;']*\bto)\s*'(/[^']+)'", re.IGNORECASE
)
_READS = re.compile(r"\b(?:load_file|pg_read_\w*file|readfile)\s*\(\s*'([^']+)'|\binfile\s+'([^']+)'", re.IGNORECASE)
_TEXT_OPTIONS = {
    "psql": ("c", "command"),
    "pgcli": ("c", "command"),
    "mysql": ("e", "execute"),
    "mariadb": ("e", "execute"),
    "mycli": ("e", "execute"),
    "sqlcmd": ("Q", "q", "query"),
    "clickhouse-client": ("q", "query"),
    "clickhouse": ("q", "query"),
    "influx": ("execute",),
    "cqlsh": ("e", "execute"),
    "snowsql": ("q", "query"),
    "duckdb": ("c", "s"),
    "usql": ("c", "command"),
    "isql": (),
    "osql": ("Q",),
    "bsqldb": (),
    "trino": ("execute",),
    "presto": ("execute",),
    "hive": ("e",),
    "beeline": ("e",),
    "impala-shell": ("q", "query"),
    "impala": ("q",),
    "sqlplus": (),
    "mssql-cli": ("Q", "query"),
    "vsql": ("c", "command"),
    "litecli": ("e",),
    "rqlite": (),
    "db2": (),
    "exaplus": ("sql",),
    "surreal": (),
    "ysqlsh": ("c",),
    "redshift": (),
    "questdb": (),
    "tarantoolctl": (),
    "nebula": ("e",),
    "cypher-shell": (),
    "arangosh": (),
    "dolt": ("q", "query"),
}


def _report(call: Call, text: str, *, local: bool) -> None:
    reason = destruction(text) or built_destruction(text)
    if reason:
        call.report(SQL_LOCAL if local else SQL_DESTROYS, reason)
    for match in re.finditer(r"(?:^|\n|;|\\;)[ \t]*(?:\\!|system\b|!)\s*([^\n;]+)", text):
        run_code(call, match[1], call.name)
    for match in re.finditer(r"\\(?:copy|o|w|g)\b[^\n|]*\|\s*([^\n]+)|\bprogram\s+'([^']*)'", text, re.IGNORECASE):
        run_code(call, match[1] or match[2] or "", call.name)
    for match in _READS.finditer(text):
        read(call, match[1] or match[2])
    for match in _WRITES.finditer(text):
        write(call, match[1] or match[2])
    for match in re.finditer(r"\\copy\b.*?\bfrom\s+'?(/[^\s']+)", text, re.IGNORECASE):
        check_sent(call, read(call, match[1]))


def judge_sql(call: Call) -> str | None:
    """psql, mysql, sqlcmd …: text options, standard input, and scripts this text wrote."""
    code = _TEXT_OPTIONS.get(call.name, ("c", "e", "q", "Q"))
    short = {
        "psql": "cdfhopPURvFTLv",
        "mysql": "ehuDPSp".replace("p", ""),
        "mariadb": "ehuDPS",
        "sqlcmd": "QqSUPdio",
        "clickhouse-client": "qhud",
    }.get(call.name, "ceqQ")
    options = parse_options(
        call.args,
        short,
        names(
            """
command execute query host user dbname file database port output set variable password init-command pager
"""
        ),
        single_dash_long=call.name in ("influx", "trino", "presto"),
    )
    if options.has("help", "version", "V"):
        return None
    texts = options.values(*code) if code else []
    if call.name == "influx" and "delete" in options.operands[:2]:
        call.report(SQL_DESTROYS, "deletes data of the database")
    texts += options.values("init-command")
    if call.name in ("dolt", "surreal", "cockroach"):
        texts += options.operands[1:]
    if call.name in ("cypher-shell", "db2", "duckdb", "rqlite"):
        texts += options.operands
    for path in options.values("f", "file", "i"):
        content = read(call, path)
        if NET in content:
            execute(call, content, "SQL", piped=True)
        if is_known(content):
            texts.append(content)
    if call.stdin is not None:
        texts.append(call.stdin)
        if NET in call.stdin:
            execute(call, call.stdin, "SQL", piped=True)
    for pager in options.values("pager"):
        run_code(call, pager, "a pager")
    if options.value("o", "output"):
        write(call, options.value("o", "output") or "")
    variables = dict(value.partition("=")[::2] for value in options.values("v", "set", "variable"))
    texts = [expand(text, variables) for text in texts]
    for text in texts:
        if marks_in(text) and not text.strip(UNSET + DECODED + " "):
            execute(call, text, "SQL")
        _report(call, text, local=False)
    return "".join(printed(text) for text in texts) + LOCAL + "\n"


# Dot commands of sqlite3 may be cut short. A file's name that begins with `|` is a command.
_SQLITE_SHELL = re.compile(r"(?:^|\n)[ \t]*\.s(?:h(?:e(?:ll?)?)?|y(?:s(?:t(?:em?)?)?)?)[ \t]+([^\n]+)")
_SQLITE_FILE = re.compile(
    r"(?:^|\n)[ \t]*\.(?P<name>ou?|out\w*|onc?e?|sa(?:ve?)?|ba\w*|dump|excel|im\w*)[ \t]+(?:-[^\s'\"]*[ \t]+){0,9}"
    r"(?:'(?P<single>[^'\n]+)'|\"(?P<double>[^\"\n]+)\"|(?P<bare>[^\s'\"][^\n]*))"
)


def judge_sqlite(call: Call) -> str | None:
    """sqlite3 works on a file; dot commands can run a shell."""
    options = parse_options(call.args, "", ("cmd", "init", "separator", "newline", "nullvalue"), single_dash_long=True)
    words = options.operands
    content = "".join(read(call, path) for path in words[:1])
    texts = [*words[1:], *options.values("cmd"), *([call.stdin] if call.stdin else [])]
    for text in texts:
        _report(call, text, local=call.place(words[0])[1] in ("workspace", "temp", "null") if words else True)
        for match in _SQLITE_SHELL.finditer(text):
            run_code(call, match[1], "sqlite3")
        for match in _SQLITE_FILE.finditer(text):
            target = match["single"] or match["double"] or match["bare"]
            if target.startswith("|"):
                run_code(call, target[1:].strip(), "sqlite3")
            elif match["name"].startswith("im"):
                read(call, target)
            else:
                write(call, target)
        for match in re.finditer(r"(?:writefile|edit)\s*\(\s*'([^']+)'", text):
            write(call, match[1])
        for match in re.finditer(r"load_extension\s*\(\s*'([^']+)'|(?:^|\n)[ \t]*\.load\s+(\S+)", text):
            call.report(OPTION_RUNS, f"loads a library into sqlite3: {match[1] or match[2]}")
        if is_wholly_unseen(text):
            execute(call, text, "SQL")
        for match in re.finditer(r"\bedit\s*\([^,]*,\s*'([^']+)'", text):
            run_code(call, match[1], "sqlite3")
        for path in re.findall(r"readfile\s*\(\s*'([^']+)'|attach\s+(?:database\s+)?'([^']+)'", text, re.IGNORECASE):
            read(call, path[0] or path[1])
    return LOCAL + marks_in(content) + "\n"


def judge_redis(call: Call) -> str | None:
    """redis-cli: its words are a command; scripts may hold one."""
    options = parse_options(
        call.args,
        "hpanurUDXt",
        names(
            """
eval pipe-timeout user pass sni cacert cert key rdb functions-rdb
"""
        ),
        stop_early=True,
    )
    script = options.value("eval")
    if script:
        content = read(call, script)
        if is_known(content):
            judge_code(call, content, "redis")
    lines = [" ".join(options.operands), *(call.stdin or "").split("\n")]
    for line in lines:
        words = line.upper().split()
        if not words:
            continue
        if (
            words[0] in ("FLUSHALL", "FLUSHDB", "SHUTDOWN", "SWAPDB", "REPLICAOF", "SLAVEOF", "FAILOVER", "MIGRATE")
            or words[:2]
            in (
                ["CONFIG", "SET"],
                ["SCRIPT", "FLUSH"],
                ["CLUSTER", "RESET"],
                ["CLUSTER", "FLUSHSLOTS"],
                ["DEBUG", "SEGFAULT"],
                ["MODULE", "LOAD"],
                ["ACL", "DELUSER"],
                ["ACL", "SETUSER"],
                ["FUNCTION", "FLUSH"],
                ["CONFIG", "REWRITE"],
            )
            or (words[0] in ("DEL", "UNLINK") and (len(words) > 20 or marks_in(line)))
        ):
            call.report(SQL_DESTROYS, f"empties or stops the database: {words[0].lower()}")
        elif words[0] in ("EVAL", "FCALL"):
            judge_code(call, line[4:], "redis")
    return LOCAL + "\n"


def judge_admin(call: Call) -> str | None:
    """dropdb, mysqladmin, mongorestore …: tools that drop or overwrite databases."""
    text = " ".join(call.args)
    if "--help" in text or "--version" in text or "--dryRun" in text:
        return None
    words = [arg for arg in call.args if not arg.startswith("-")]
    if call.name == "dropdb":
        local = (
            not re.search(r"(^|\s)(-h|--host|-U|--username)", text)
            and bool(words)
            and bool(re.search(r"test|tmp|dev|scratch|local", words[-1]))
        )
        call.report(SQL_LOCAL if local else SQL_DESTROYS, "drops a database")
    elif call.name in ("mysqladmin", "mariadb-admin") and re.search(
        r"\b(drop|shutdown|kill|flush-privileges|password)\b", text
    ):
        call.report(SQL_DESTROYS, "drops or stops the database")
    elif call.name in ("pg_restore", "mongorestore") and re.search(r"--(clean|drop)|(^|\s)-\w*c", text):
        call.report(SQL_DESTROYS, "replaces a database")
    elif call.name in (
        "dropuser",
        "pg_resetwal",
        "pg_rewind",
        "mongo-drop",
        "pg_dropcluster",
        "mysql_secure_installation",
        "pt-archiver",
    ):
        call.report(SQL_DESTROYS, "changes or deletes parts of the database")
    elif call.name == "nodetool" and re.search(
        r"\b(decommission|removenode|clearsnapshot|drain|assassinate|stopdaemon|truncatehints)\b", text
    ):
        call.report(SQL_DESTROYS, "takes a part of the database away")
    elif call.name in names(
        """
prisma sequelize sequelize-cli knex typeorm alembic flyway liquibase dbmate migrate goose drizzle-kit mikro-orm
diesel sqlx doctrine ecto hasura
"""
    ):
        if re.search(
            (
                r"migrate reset|db push .*--force-reset|--force-reset|db:drop|schema:drop|migrate:reset|"
                r"drop-?all|dropAll|downgrade base|^clean|\bdrop\b|db execute|database (drop|reset)|db "
                r"reset"
            ),
            text,
        ):
            call.report(SQL_DESTROYS, "drops the application's database")
        elif re.search(r"rollback|downgrade|undo|revert|down\b", text):
            call.report(SQL_LOCAL, "undoes migrations")
    elif call.name in ("elasticdump", "es") and "DELETE" in text:
        call.report(SQL_DESTROYS, "deletes an index")
    return LOCAL + "\n"


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(_TEXT_OPTIONS, judge_sql),
    **dict.fromkeys(("sqlite3", "sqlite", "sqlcipher"), judge_sqlite),
    **dict.fromkeys(("redis-cli", "valkey-cli", "keydb-cli", "iredis"), judge_redis),
    **dict.fromkeys(
        names(
            """
dropdb mysqladmin mariadb-admin pg_restore mongorestore dropuser pg_resetwal pg_rewind pg_dropcluster nodetool
prisma sequelize sequelize-cli knex typeorm alembic flyway liquibase dbmate migrate goose drizzle-kit mikro-orm
diesel sqlx hasura elasticdump
"""
        ),
        judge_admin,
    ),
}

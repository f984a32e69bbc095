"""Limits that the resident enforces. `contract.limits` adds those of the callers.

A comment holds the unit and the meaning; docs/reference.md lists them.
"""

GREETING = 5.0  # seconds: a new connection has to send its greeting within this
CLIENTS = 64  # connections: most clients of one resident; one more is refused as full
# connections: most further connections that have not greeted yet or are being refused
UNGREETED = 64
OPEN_REQUESTS = 1024  # requests: most open requests of one connection; one more closes it
UNSENT = 1 << 20  # bytes: unsent answers at which the resident stops reading from that connection

INLINE_OUTPUT = 1 << 18  # bytes: most output in the answer to `run` itself
FOLLOW_PIECE = 1 << 18  # bytes: most output in one piece to a live reader
FOLLOW_HOLD = 4 << 20  # bytes: lag of a lossless reader at which the program has to wait
FOLLOW_PACE = 1 << 16  # bytes: lag of a terminal's fastest viewer at which the program has to wait

LOG_HEAD = 1 << 16  # bytes: start of one log, in memory; a smaller log never touches the disk
SPOOL = 64 << 20  # bytes: most of one log on disk; bytes dropped between head and tail are counted
SPOOL_FALLBACK = 1 << 18  # bytes: tail of one log in memory, where no disk is writable
# moments: most of one log that are kept with their offset, to find output by its age
LOG_MARKS = 512
LOG_MARK_SECONDS = 1.0  # seconds: least time between two of them
SECRETS = 16  # secrets: most secrets masked in one log; a new one replaces the oldest
SECRET_LENGTH = 4  # bytes: shortest secret that is masked; a shorter one would match everywhere
KEPT_COMMANDS = 128  # commands: ended commands whose output stays readable, the newest
KEPT_PROCESSES = 1024  # processes: ended processes whose output stays readable, the newest
# bytes: memory for the output of everything that has ended; the oldest is dropped first
KEPT_MEMORY = 16 << 20
# bytes: disk for the output of everything that has ended; the oldest is dropped first
KEPT_SPOOL = 512 << 20
ERROR_LOG = 1 << 16  # bytes: the resident's log of its own failures

PENDING_INPUT = 1 << 20  # bytes: most input queued for a process that does not read
BLOB = 8 << 30  # bytes: largest input or file sent in pieces
BLOBS = 256  # blobs: most unused blobs of one connection
# bytes: largest file the resident writes in its loop; a forked worker writes larger ones
FILE_AT_ONCE = 1 << 20
WORKER_ANSWER = 8 << 20  # bytes: longest answer of a forked worker
WORKERS = 8  # processes: most forked workers at once; further file requests wait
COMMAND = 64 << 20  # bytes: longest command text; the kernel takes less of an argv
COMMAND_SHOWN = 4096  # bytes: most of a command's text in the description of one process
COMMAND_LISTED = 200  # bytes: most of a command's text in a list of processes
LISTED = 1500  # processes: most processes in one list, the newest
ID_LENGTH = 64  # characters: longest id of a process or log
SESSIONS = 128  # sessions: most sessions of one environment; one more is refused
TAG = 2048  # bytes: longest tag of a process
TERMINAL = 10000  # cells: largest terminal, in rows and in columns
ECHO = 0.02  # seconds: after which keys that a person typed are acknowledged
TERMINAL_PIECE = 1 << 14  # bytes: most output read from one terminal in a row
DRIVER_LEASE = 30.0  # seconds: after which a person without a connection no longer drives a process
HANDOVER_NOTE = 2000  # characters: longest note of a person who gives a process back
HANDOVERS = 16  # notes: notes of such hand-overs that are kept for the next result of each client
INPUT_RECORDS = 1000  # records: newest records of whose input a process got
DURATION = 1e9  # seconds: longest duration; a longer one is cut to it

GRACE = 0.25  # seconds: between TERM and KILL when a timeout or a cancel ends a command
KILL_GRACE = 2.0  # seconds: default of `kill` between TERM and KILL
TERM_AGAIN = 0.02  # seconds: before TERM is repeated to a tree without a handler for it
KILL_CHECK = 0.1  # seconds: between two checks of a killed tree when no event arrives
KILL = 10.0  # seconds: until a killed process that the kernel does not release counts as a survivor
LEASE = 300.0  # seconds: lifetime with no client attached and nothing running
FIRST_CLIENT = 15.0  # seconds: lifetime before the first client, whose opener may have been killed
UNATTENDED = 86400.0  # seconds: lifetime with no client attached while something runs
LOGIN = 30.0  # seconds: most for the user's profile when a session starts

STANDBYS = 2  # shells: ready standbys kept of a session's shell
# seconds: for a forked shell to report ready, on a busy machine too; then another one is forked
FORK_READY = 2.0
# seconds: for a fresh bash to load a session's state; then the session keeps its old bash
SESSION_MOVE = 10.0
# levels: hand-overs after which an idle session moves to a fresh bash; each nests one level
NESTING = 128
# bytes: longer texts make bash keep their memory, so the session moves to a fresh bash
LARGE_COMMAND = 1 << 20
# bytes: longest text that is scanned for its effects; a longer one may do anything
READABLE_COMMAND = 4096
# bytes: longest text sent through a shell's pipe, which bash reads bytewise; others go in a file
PIPED_COMMAND = 512
SPARE_PROCESSES = 8  # processes: headroom below a process limit before a standby is forked
TREE_TAGS = 400000  # numbers: different tags of process trees before they repeat

READ_BUFFER = 1 << 16  # bytes: size of the resident's read buffer
# reads: most reads from one output in a row, so that a flood leaves the loop free after 1 MiB
READS_AT_ONCE = 16
FLOOD_PIPE = 1 << 20  # bytes: size of a pipe that is always full; others have the kernel's size
SPIN = 0.001  # seconds: most busy polling for a shell's answer
SPIN_BETWEEN = 0.006  # seconds: most busy polling for the next command after one that came as soon
# descriptors: descriptors of one poll or select that are examined for waiting on input
POLLED_DESCRIPTORS = 1024

PROMPT = 1024  # bytes: longest prompt for a password, and longest password
PASSWORD_QUESTIONS = 16  # questions: open questions for a password at once

CHANNELS = 256  # connections: most connections of scripts to one resident
# connections: most connections that have sent no token; one more ends the oldest
CHANNEL_UNPROVEN = 32
CHANNEL_TOKEN = 5  # seconds: for a script's connection to send its token
SCRIPT_GRACE = 0.25  # seconds: between TERM and KILL for processes that a script left behind
# sets: module sets for scripts that a resident caches, least recently used dropped first
SCRIPT_MODULES = 4
SPARE_INTERPRETER = 300  # seconds: lifetime of an idle interpreter for scripts

LONGEST_SEARCH = 600.0  # seconds: most for any search in files
SEARCH_RESULTS = 10_000  # results: most results of one search in files
SEARCH_CONTEXT = 100  # lines: most lines around a match, on each side
SEARCH_BLOCK = 4 << 20  # bytes: block size of a search without ripgrep
SEARCH_ANSWER = 512 << 10  # bytes: names and lines in the resident's answer to a search
SEARCH_TEXT = 2000  # characters: most of a matching line in that answer
IGNORE_FILE = 1 << 20  # bytes: most that is read of an ignore file
# bytes: largest file whose lines the resident counts in its loop; a forked worker counts others
FILE_SCAN = 1 << 20
SCAN_BLOCK = 1 << 17  # bytes: smallest block of a file whose lines are counted together
SCAN_BLOCKS = 1 << 16  # blocks: most blocks of one file
SCANS = 8  # files: files whose line counts are cached
PAGE = 4 << 20  # bytes: longest run of lines read at once; a longer one is read line by line
FILE_SAMPLE = 8192  # bytes: start of a file that decides whether it is text
PATCHED_FILES = 256  # files: most files in one patch

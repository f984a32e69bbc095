"""Every limit there is, in one table: name, value, unit, meaning."""

from typing import Generic, TypeVar

import msgspec

N = TypeVar("N", int, float)


class Limit(msgspec.Struct, Generic[N], frozen=True):
    """One limit. `value` counts `unit`s."""

    name: str
    value: N
    unit: str
    meaning: str


FRAME_BODY = Limit("frame_body", 1 << 20, "bytes", "most body in one frame; longer input and files go in pieces")
FRAME_HEADER = Limit("frame_header", 1 << 16, "bytes", "most header in one frame")
FIRST_FRAME = Limit("first_frame", 4096, "bytes", "longest frame before the greeting has been answered")
FRAME_DEPTH = Limit("frame_depth", 8, "levels", "deepest nesting in a header")
FRAME_ITEMS = Limit("frame_items", 65536, "items", "most items in one array or map of a frame")
GREETING = Limit("greeting", 5.0, "seconds", "time for the greeting of a new connection")
CLIENTS = Limit("clients", 64, "connections", "most clients of one resident; one more is refused as full")
UNGREETED = Limit("ungreeted", 64, "connections", "beside them, of clients that have yet to greet or are refused")
OPEN_REQUESTS = Limit("open_requests", 1024, "requests", "most open requests of one connection; one more closes it")
UNSENT = Limit("unsent", 1 << 20, "bytes", "answers waiting to be sent before nothing new is read from that connection")

INLINE_OUTPUT = Limit("inline_output", 1 << 18, "bytes", "most output that comes back inside the answer to `run`")
INLINE_INPUT = Limit("inline_input", 1 << 18, "bytes", "most of command and input in one frame; more goes in a blob")
RETURNED_OUTPUT = Limit("returned_output", 1 << 20, "bytes", "most output in a result, unless `limit` says otherwise")
READ = Limit("read", 1 << 20, "bytes", "most output from one read of a log, unless `limit` says otherwise")
FOLLOW_CREDIT = Limit("follow_credit", 1 << 20, "bytes", "output under way to a live reader before it has taken any")
FOLLOW_PIECE = Limit("follow_piece", 1 << 18, "bytes", "most output in one piece to a live reader")
FOLLOW_HOLD = Limit("follow_hold", 4 << 20, "bytes", "how far a holding reader may be behind; then the program waits")
EVENTS = Limit("events", 4096, "events", "most events that wait for a slow reader; more are told as missed")

LOG_HEAD = Limit("log_head", 1 << 16, "bytes", "start of one log, in memory; a log this small never touches the disk")
SPOOL = Limit("spool", 64 << 20, "bytes", "most of one log on disk; what falls out between head and tail is counted")
SPOOL_FALLBACK = Limit("spool_fallback", 1 << 18, "bytes", "tail of one log in memory, where no disk can be written")
SECRETS = Limit("secrets", 16, "secrets", "most that are masked in one log; a new one replaces the oldest")
SECRET_LENGTH = Limit("secret_length", 4, "bytes", "shortest secret that is masked")
KEPT_COMMANDS = Limit("kept_commands", 128, "commands", "ended commands whose output stays readable, the newest")
KEPT_PROCESSES = Limit("kept_processes", 1024, "processes", "ended processes whose output stays readable, the newest")
KEPT_MEMORY = Limit("kept_memory", 16 << 20, "bytes", "memory for output of all that has ended; the oldest goes first")
KEPT_SPOOL = Limit("kept_spool", 512 << 20, "bytes", "disk for output of all that has ended; the oldest goes first")
ERROR_LOG = Limit("error_log", 1 << 16, "bytes", "the resident's log of its own failures")

PENDING_INPUT = Limit("pending_input", 1 << 20, "bytes", "input that waits inside for a process that does not read")
BLOB = Limit("blob", 8 << 30, "bytes", "largest input or file that is sent in pieces")
BLOBS = Limit("blobs", 256, "blobs", "most unused blobs of one connection")
FILE = Limit("file", 256 << 20, "bytes", "largest file that is read into memory; larger ones are downloaded")
FILE_AT_ONCE = Limit("file_at_once", 1 << 20, "bytes", "largest file the resident writes itself; a child writes others")
WORKER_ANSWER = Limit("worker_answer", 8 << 20, "bytes", "most that a forked worker of the resident answers")
WORKERS = Limit("workers", 8, "processes", "of a resident that look through files at once; who comes later waits")
COMMAND = Limit("command", 64 << 20, "bytes", "longest command text; of an argv the kernel takes less")
COMMAND_SHOWN = Limit("command_shown", 4096, "bytes", "most of a command's text where one process is described")
COMMAND_LISTED = Limit("command_listed", 200, "bytes", "most of a command's text in lists of processes")
LISTED = Limit("listed", 1500, "processes", "most processes in one list, the newest")
ID_LENGTH = Limit("id_length", 64, "characters", "longest id of a process or log")
TASK_LENGTH = Limit("task_length", 512, "characters", "longest task")
SESSIONS = Limit("sessions", 128, "sessions", "of one environment; one more is refused until another one is ended")
TAG = Limit("tag", 2048, "bytes", "longest text that is remembered with a process")
TERMINAL = Limit("terminal", 10000, "cells", "largest terminal, in rows and in columns")
DURATION = Limit("duration", 1e9, "seconds", "longest duration; one beyond it counts as this one")

GRACE = Limit("grace", 0.25, "seconds", "between TERM and KILL, when a timeout or a cancel ends a command")
KILL_GRACE = Limit("kill_grace", 2.0, "seconds", "between TERM and KILL of `kill`, unless told otherwise")
TERM_AGAIN = Limit("term_again", 0.02, "seconds", "before TERM is sent again to a tree without a handler for it")
KILL_LOOK = Limit("kill_look", 0.1, "seconds", "before a killed tree is looked at without any event")
KILL = Limit("kill", 10.0, "seconds", "for the kernel to let a killed process go; then it counts as a survivor")
LEASE = Limit("lease", 300.0, "seconds", "life with nobody attached and nothing running")
UNATTENDED = Limit("unattended", 86400.0, "seconds", "life with nobody attached though something runs")
LOGIN = Limit("login", 30.0, "seconds", "time for the user's profile when a session starts")
START = Limit("start", 30.0, "seconds", "time for a local resident to say that it is ready")
CONTAINER_START = Limit("container_start", 600.0, "seconds", "time for a new container, its image's download included")
CONNECT = Limit("connect", 10, "seconds", "for a host to answer when it is called by ssh")
ALIVE = Limit("alive", 5, "seconds", "of silence on an ssh connection before the host is asked whether it lives")
ALIVE_ASKED = Limit("alive_asked", 3, "questions", "without an answer before an ssh connection counts as broken")
SHARED = Limit("shared", 60, "seconds", "that an ssh connection waits for its next user; then it is closed")
SYNC_PAUSE = Limit("sync_pause", 5.0, "seconds", "between two looks for files to send to an environment")
SYNC_BACK = Limit("sync_back", 2 << 30, "bytes", "most changed files that come back from an environment")
SYNC_TRIES = Limit("sync_tries", 3, "tries", "for files to come back; the pauses between them are 2 and 4 seconds")
RECONNECT = Limit("reconnect", 300.0, "seconds", "a broken way to a resident is tried anew for so long")
RECONNECT_PAUSE = Limit("reconnect_pause", 5.0, "seconds", "longest pause between two tries; the first is a fiftieth")
UNANSWERED = Limit("unanswered", 3, "greetings", "that were cut off in a row, before a resident counts as gone")
OVERDUE = Limit("overdue", 2.0, "seconds", "for an answer beyond what was asked for; then the resident is pinged")
STALL = Limit("stall", 8.0, "seconds", "without a frame after a ping, before an environment counts as stalled")
PING = Limit("ping", 5.0, "seconds", "between two pings while an answer is overdue")
REACH = Limit("reach", 15.0, "seconds", "for a known environment to be attached to; then it is stalled, full or busy")
INSTANCE = Limit("instance", 120.0, "seconds", "time for an apptainer container and the resident in it to be ready")
CALLED_START = Limit("called_start", 180.0, "seconds", "for a place reached by calls alone to be made and to answer")
RUNTIME = Limit("runtime", 3600.0, "seconds", "for which such a place is made")
CALL = Limit("call", 120.0, "seconds", "after which a call that carries a stream counts as lost")
BUILD = Limit("build", 600.0, "seconds", "time to build an image for apptainer")

COPIES = Limit("copies", 2, "shells", "proven copies of a session's shell that stay")
COPY_REPORT = Limit("copy_report", 0.2, "seconds", "for a copy that was forked to report; then nobody waits for it")
BESIDE_REPORT = Limit("beside_report", 2, "seconds", "for a shell beside the lane to come; then another is asked for")
MOVE = Limit("move", 10.0, "seconds", "for a fresh bash to take a session's state in; then the session stays as it is")
NESTING = Limit("nesting", 128, "levels", "of hand-overs in a session, before it moves to a fresh bash when idle")
LARGE_COMMAND = Limit("large_command", 1 << 20, "bytes", "longest text after which a session keeps its bash")
READABLE_COMMAND = Limit("readable_command", 4096, "bytes", "longest text looked into; a longer one may mean anything")
PIPED_COMMAND = Limit("piped_command", 512, "bytes", "longest text sent through a shell's pipe; others go in a file")
SPARE_PROCESSES = Limit("spare_processes", 8, "processes", "left free below a cgroup's limit before a copy is made")
MARKS = Limit("marks", 400000, "numbers", "different marks for processes, before they begin again")

READ_BUFFER = Limit("read_buffer", 1 << 16, "bytes", "most that the resident takes in with one read")
READS_AT_ONCE = Limit("reads_at_once", 16, "reads", "from one output in a row, before others have their turn")
FLOOD_PIPE = Limit("flood_pipe", 1 << 20, "bytes", "size of a pipe that is always full; others have the kernel's size")
AWAKE = Limit("awake", 0.001, "seconds", "most that the resident looks for a shell's answer without sleeping")
PATIENCE = Limit(
    "patience", 0.006, "seconds", "most that it looks for the next command so, when the one before came as soon"
)
POLLED = Limit("polled", 1024, "descriptors", "of one poll or select that are looked at for waiting on input")

BARE_BEGIN = Limit("bare_begin", 10.0, "seconds", "for a command that is to end to begin, in a place without Python")
BARE_FIRST_LOOK = Limit("bare_first_look", 0.005, "seconds", "before a tree that ends there is looked at again")
BARE_LAST_LOOK = Limit("bare_last_look", 0.04, "seconds", "the longest time between two such looks")
BARE_LAST_WORDS = Limit("bare_last_words", 1.0, "seconds", "for output on its way when all who printed it have ended")
BARE_STATE = Limit("bare_state", 64 << 20, "bytes", "largest state of a session there")
BARE_COMPLAINT = Limit("bare_complaint", 4000, "bytes", "of what a way into such a place said when it failed")
PROMPT = Limit("prompt", 1024, "bytes", "longest prompt for a password, and longest password")
QUESTIONS = Limit("questions", 16, "questions", "for a password that are open at once")
FOREGROUND = Limit("foreground", 180.0, "seconds", "that the terminal tool waits for a command, unless told otherwise")
LONGEST_FOREGROUND = Limit("longest_foreground", 600.0, "seconds", "most that the terminal tool waits for a command")
ACTIVITY = Limit("activity", 10.0, "seconds", "between two signs of life while a tool waits")
PREVIEW = Limit("preview", 1000, "characters", "of output in the answer to poll")
FINAL_OUTPUT = Limit("final_output", 2000, "characters", "of output in the answer to wait and kill, and in a notice")
LOG_LINES = Limit("log_lines", 200, "lines", "in the answer to log, unless told otherwise")
CHECK_INTERVAL = Limit("check_interval", 30.0, "seconds", "least time between two progress notices of a process")
NOTICE_GAP = Limit("notice_gap", 15.0, "seconds", "between two notices of matches in one process")
NOTICE_LINES = Limit("notice_lines", 20, "lines", "most lines in one notice of a match")
NOTICE_TEXT = Limit("notice_text", 2000, "characters", "longest text in one notice of a match")
NOTICE_STRIKES = Limit("notice_strikes", 3, "gaps", "in a row with more matches than are told; then watching ends")
NOTICE_MATCHES = Limit("notice_matches", 100, "notices", "of matches in one process; then watching ends")
NOTICE_BREAKER = Limit("notice_breaker", 15, "notices", "of all processes within the window, before there is silence")
NOTICE_BREAKER_WINDOW = Limit("notice_breaker_window", 10.0, "seconds", "in which notices of all are counted")
NOTICE_SILENCE = Limit("notice_silence", 30.0, "seconds", "that the silence lasts")
NOTICES = Limit("notices", 1000, "notices", "that wait for a reader; the oldest are dropped, and that is told")
DELIVERY_PAUSE = Limit("delivery_pause", 1.0, "seconds", "before a notice that nobody took is sent again; it doubles")
LONGEST_DELIVERY_PAUSE = Limit("longest_delivery_pause", 60.0, "seconds", "between two tries to deliver a notice")
WEBHOOK = Limit("webhook", 10.0, "seconds", "for a web address to take a notice, before it is sent again")
RUNNING = Limit("running", 256, "processes", "of one task that run at once, as the terminal tool starts them")
LISTED_BY_TOOL = Limit("listed_by_tool", 64, "processes", "in the process tool's list; those that run come first")
TOOL_COMMAND = Limit("tool_command", 128_000, "characters", "longest command that the terminal tool takes")
PASSWORD = Limit("password", 45.0, "seconds", "for whoever is asked for a password to give it")
RESULT = Limit("result", 100_000, "characters", "longest answer of a registered tool; a longer one is kept")
RESULT_PREVIEW = Limit("result_preview", 1500, "characters", "of such an answer that are shown")
HANDLES = Limit("handles", 64, "processes", "whose screens and searches a toolbox goes on with, the last ones used")

CODE_TIME = Limit("code_time", 300.0, "seconds", "that a script may take, unless it is asked to take less")
CODE_CALLS = Limit("code_calls", 50, "calls", "of tools by one script, those that fail among them")
CODE_REFUSED = Limit("code_refused", 1000, "calls", "of one script that were refused; one more ends it")
CODE_STDOUT = Limit("code_stdout", 50_000, "bytes", "of a script's output in its answer, 40 % from the start")
CODE_STDERR = Limit("code_stderr", 10_000, "bytes", "of a script's stderr in its answer, 40 % from the start")
CODE_GATHERED = Limit("code_gathered", 64 << 20, "bytes", "of arguments that one script's calls have under way")
CODE_FILES = Limit("code_files", 8 << 20, "bytes", "of files and images that a script puts into its answer")
CODE_LOGGED = Limit("code_logged", 100, "calls", "in the log of a script's calls, the last ones")
CHANNELS = Limit("channels", 256, "connections", "of scripts to one resident at once")
CHANNEL_STRANGERS = Limit("channel_strangers", 32, "connections", "that have said no token; one more ends the first")
CHANNEL_TOKEN = Limit("channel_token", 5, "seconds", "for a script's connection to say its token")
SCRIPT_GRACE = Limit("script_grace", 0.25, "seconds", "between TERM and KILL for what a script left behind")
SCRIPT_MODULES = Limit("script_modules", 4, "sets", "of modules for scripts that a resident keeps, the last ones used")
SPARE_INTERPRETER = Limit("spare_interpreter", 300, "seconds", "that an interpreter waits for the next script")

SCREEN_REPLAY = Limit("screen_replay", 4 << 20, "bytes", "most output that is replayed to draw a screen")
SCREEN_CELLS = Limit("screen_cells", 1 << 18, "cells", "largest terminal whose screen is drawn, rows times columns")
SEARCH_WINDOW = Limit("search_window", 1 << 20, "bytes", "longest stretch of output that a pattern can match in")

READ_CHARACTERS = Limit("read_characters", 100_000, "characters", "most of a file in the answer to read_file")
SEARCH = Limit("search", 60.0, "seconds", "that search_files looks; then it is ended")
LONGEST_SEARCH = Limit("longest_search", 600.0, "seconds", "most that any search in files may take")
SEARCH_RESULTS = Limit("search_results", 10_000, "results", "most of one search in files")
SEARCH_CONTEXT = Limit("search_context", 100, "lines", "most around a match, on each side")
SEARCH_BLOCK = Limit("search_block", 4 << 20, "bytes", "of a file that are searched at a time, without ripgrep")
SEARCH_ANSWER = Limit("search_answer", 512 << 10, "bytes", "of names and lines in the resident's answer to a search")
SEARCH_TEXT = Limit("search_text", 2000, "characters", "of a line that the resident tells of a match")
IGNORE_FILE = Limit("ignore_file", 1 << 20, "bytes", "of an ignore file that are read")
SEARCH_FETCH = Limit("search_fetch", 256 << 20, "bytes", "of files that a search looks into in a place without Python")
MATCH_LINE = Limit("match_line", 500, "characters", "of a matching line that search_files shows")
GROUPED_MATCHES = Limit("grouped_matches", 5, "matches", "from which on search_files answers with a text by files")
READ_LINES = Limit("read_lines", 2000, "lines", "most of a file in the answer to read_file")
LONG_LINE = Limit("long_line", 2000, "characters", "of a line that read_file shows; the rest is cut")
LARGE_FILE = Limit("large_file", 512_000, "bytes", "size beyond which read_file advises to search instead")
DOCUMENT = Limit("document", 32 << 20, "bytes", "largest notebook or office document shown as text, packed or unpacked")
DOCUMENT_TEXT = Limit("document_text", 4 << 20, "characters", "most text of a document; the rest is cut")
DOCUMENT_ELEMENTS = Limit("document_elements", 300_000, "elements", "of an office document that are looked at")
REMEMBERED_FILES = Limit("remembered_files", 4096, "files", "that a toolbox remembers who has read and written")
FILE_SCAN = Limit("file_scan", 1 << 20, "bytes", "largest file whose lines the resident counts itself; a child others")
SCAN_BLOCK = Limit("scan_block", 1 << 17, "bytes", "least stretch of a file whose lines are counted together")
SCAN_BLOCKS = Limit("scan_blocks", 1 << 16, "blocks", "most of one file that are counted apart")
SCANS = Limit("scans", 8, "files", "whose lines stay counted, the last ones used")
PAGE = Limit("page", 4 << 20, "bytes", "longest stretch of lines that is read at once; a longer one goes line by line")
FILE_SAMPLE = Limit("file_sample", 8192, "bytes", "of a file that are looked at to tell text from anything else")
PATCHED_FILE = Limit("patched_file", 2 << 20, "bytes", "largest file that is edited; larger ones need a program")
PATCHED_FILES = Limit("patched_files", 256, "files", "most files in one patch")
PATCH_DIFF = Limit("patch_diff", 20_000, "characters", "most of a diff in the answer to an edit")
PATCH_TRIES = Limit("patch_tries", 100, "tries", "of an edit whose file others change meanwhile")
PATCH_MISSES = Limit("patch_misses", 3, "misses", "of edits of one file in a row, before it is to be read again first")

MODEL_OUTPUT = Limit("model_output", 50_000, "characters", "most output in a tool's result; a line says how to read on")

LIMITS: tuple[Limit[int] | Limit[float], ...] = (
    FRAME_BODY, FRAME_HEADER, FIRST_FRAME, FRAME_DEPTH, FRAME_ITEMS, GREETING, CLIENTS, UNGREETED,
    OPEN_REQUESTS, UNSENT,
    INLINE_OUTPUT, INLINE_INPUT, RETURNED_OUTPUT, READ, FOLLOW_CREDIT, FOLLOW_PIECE, FOLLOW_HOLD, EVENTS,
    LOG_HEAD, SPOOL, SPOOL_FALLBACK, SECRETS, SECRET_LENGTH, KEPT_COMMANDS, KEPT_PROCESSES, KEPT_MEMORY, KEPT_SPOOL,
    ERROR_LOG,
    PENDING_INPUT, BLOB, BLOBS, FILE, FILE_AT_ONCE, WORKER_ANSWER, WORKERS, COMMAND, COMMAND_SHOWN, COMMAND_LISTED,
    LISTED, ID_LENGTH, TASK_LENGTH, SESSIONS, TAG, TERMINAL, DURATION,
    GRACE, KILL_GRACE, TERM_AGAIN, KILL_LOOK, KILL, LEASE, UNATTENDED, LOGIN, START, CONTAINER_START,
    CONNECT, ALIVE, ALIVE_ASKED, SHARED, SYNC_PAUSE, SYNC_BACK, SYNC_TRIES,
    RECONNECT, RECONNECT_PAUSE, UNANSWERED, OVERDUE, STALL, PING, REACH,
    INSTANCE, CALLED_START, RUNTIME, CALL, BUILD,
    COPIES, COPY_REPORT, BESIDE_REPORT, MOVE, NESTING, LARGE_COMMAND, READABLE_COMMAND, PIPED_COMMAND,
    SPARE_PROCESSES, MARKS,
    READ_BUFFER, READS_AT_ONCE, FLOOD_PIPE, AWAKE, PATIENCE, POLLED,
    BARE_BEGIN, BARE_FIRST_LOOK, BARE_LAST_LOOK, BARE_LAST_WORDS, BARE_STATE, BARE_COMPLAINT,
    PROMPT, QUESTIONS, FOREGROUND, LONGEST_FOREGROUND, ACTIVITY, PREVIEW, FINAL_OUTPUT, LOG_LINES, CHECK_INTERVAL,
    NOTICE_GAP, NOTICE_LINES, NOTICE_TEXT, NOTICE_STRIKES, NOTICE_MATCHES, NOTICE_BREAKER, NOTICE_BREAKER_WINDOW,
    NOTICE_SILENCE,
    NOTICES, DELIVERY_PAUSE, LONGEST_DELIVERY_PAUSE, WEBHOOK, RUNNING, LISTED_BY_TOOL, TOOL_COMMAND, PASSWORD, HANDLES,
    CODE_TIME, CODE_CALLS, CODE_REFUSED, CODE_STDOUT, CODE_STDERR, CODE_GATHERED, CODE_FILES, CODE_LOGGED,
    CHANNELS, CHANNEL_STRANGERS, CHANNEL_TOKEN, SCRIPT_GRACE, SCRIPT_MODULES, SPARE_INTERPRETER,
    RESULT, RESULT_PREVIEW, SCREEN_REPLAY, SCREEN_CELLS, SEARCH_WINDOW,
    SEARCH, LONGEST_SEARCH, SEARCH_RESULTS, SEARCH_CONTEXT, SEARCH_BLOCK, SEARCH_ANSWER, SEARCH_TEXT, IGNORE_FILE,
    SEARCH_FETCH, MATCH_LINE, GROUPED_MATCHES,
    READ_CHARACTERS, READ_LINES, LONG_LINE, LARGE_FILE, DOCUMENT, DOCUMENT_TEXT, DOCUMENT_ELEMENTS,
    REMEMBERED_FILES,
    FILE_SCAN, SCAN_BLOCK, SCAN_BLOCKS, SCANS, PAGE, FILE_SAMPLE,
    PATCHED_FILE, PATCHED_FILES, PATCH_DIFF, PATCH_TRIES, PATCH_MISSES,
    MODEL_OUTPUT,
)  # fmt: skip

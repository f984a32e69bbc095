"""All limits: those of the resident and of its frames, and those of the callers.

A comment holds the unit and the meaning; docs/reference.md lists them.
"""

from hermetic.resident.limits import *  # noqa: F403
from hermetic.resident.wire.frames import FIRST_FRAME as FIRST_FRAME
from hermetic.resident.wire.frames import FRAME_BODY as FRAME_BODY
from hermetic.resident.wire.frames import FRAME_DEPTH as FRAME_DEPTH
from hermetic.resident.wire.frames import FRAME_HEADER as FRAME_HEADER
from hermetic.resident.wire.frames import FRAME_ITEMS as FRAME_ITEMS

INLINE_INPUT = 1 << 18  # bytes: most command and input in one frame; more is sent as a blob
RETURNED_OUTPUT = 1 << 20  # bytes: default for most output in a result
READ = 1 << 20  # bytes: default for most output in one read of a log
FOLLOW_CREDIT = 1 << 20  # bytes: unread output in transit to a live reader
EVENTS = 4096  # events: most events queued for a slow reader; further ones are counted as missed

FILE = 256 << 20  # bytes: largest file read into memory; download larger ones
TASK_LENGTH = 512  # characters: longest task

START = 30.0  # seconds: for a local resident to report ready
CONTAINER_START = 600.0  # seconds: for a new container to start, the pull of its image included
CONNECT = 10  # seconds: for a host to answer ssh
KEEPALIVE = 5  # seconds: of silence on an ssh connection before a keepalive probe
KEEPALIVE_TRIES = 3  # probes: unanswered probes after which an ssh connection counts as broken
SHARED = 60  # seconds: lifetime of an idle shared ssh connection
SYNC_PAUSE = 5.0  # seconds: between two scans for files to send to an environment
SYNC_BACK = 2 << 30  # bytes: most changed files that are copied back from an environment
SYNC_TRIES = 3  # tries: to copy files back; the pauses between them are 2 and 4 seconds
# seconds: without a message on a carried connection, after which either side counts as gone
SILENCE = 60.0
RECONNECT = 300.0  # seconds: during which a broken connection to a resident is retried
RECONNECT_PAUSE = 5.0  # seconds: longest pause between two retries; the first is a fiftieth of it
UNANSWERED = 3  # greetings: greetings cut off in a row after which a resident counts as gone
OVERDUE = 2.0  # seconds: beyond the expected time of an answer before the resident is pinged
# seconds: an answer is overdue before it is given up, where the resident answers pings
ABANDONED = 60.0
STALL = 8.0  # seconds: without a frame after a ping before an environment counts as stalled
PING = 5.0  # seconds: between two pings while an answer is overdue
# seconds: for attaching to a known environment; then it counts as stalled, full or busy
REACH = 15.0
INSTANCE = 120.0  # seconds: for an apptainer container and its resident to be ready
# seconds: for an environment behind an API of calls to be created and to answer
CALLED_START = 180.0
LIFETIME = 3600.0  # seconds: lifetime requested for such an environment
CALL = 120.0  # seconds: after which a call that carries a stream counts as lost
BUILD = 600.0  # seconds: to build an image for apptainer

FOREGROUND = 180.0  # seconds: default of the terminal tool for waiting on a command
LONGEST_FOREGROUND = 600.0  # seconds: most that the terminal tool waits on a command
ACTIVITY = 10.0  # seconds: between two reports of activity while a tool waits
PREVIEW = 1000  # characters: output in the answer to poll
FINAL_OUTPUT = 2000  # characters: output in the answer to wait and kill, and in a notice
LOG_LINES = 200  # lines: default for the answer to log
CHECK_INTERVAL = 30.0  # seconds: shortest time between two progress notices of a process
NOTICE_GAP = 15.0  # seconds: between two notices of matches in one process
NOTICE_LINES = 20  # lines: most lines in one notice of a match
NOTICE_TEXT = 2000  # characters: longest text in one notice of a match
NOTICE_STRIKES = 3  # gaps: gaps in a row with more matches than are reported; then watching ends
NOTICE_MATCHES = 100  # notices: notices of matches in one process; then watching ends
NOTICE_BREAKER = 15  # notices: notices of all processes within the window before they are silenced
NOTICE_BREAKER_WINDOW = 10.0  # seconds: window in which those notices are counted
NOTICE_SILENCE = 30.0  # seconds: length of that silence
# notices: undelivered notices kept; the oldest are dropped, and the drop is reported
NOTICES = 1000
DELIVERY_PAUSE = 1.0  # seconds: before an undelivered notice is sent again; doubles each time
LONGEST_DELIVERY_PAUSE = 60.0  # seconds: longest pause between two deliveries of a notice
WEBHOOK = 10.0  # seconds: for a webhook to take a notice before it is retried
RUNNING = 256  # processes: running processes of one task that the terminal tool started
LISTED_BY_TOOL = 64  # processes: processes in the process tool's list; running ones come first
TOOL_COMMAND = 128_000  # characters: longest command of the terminal tool
PASSWORD = 45.0  # seconds: for a person to enter a password
# characters: longest answer of a registered tool; a longer one is stored and previewed
RESULT = 100_000
RESULT_PREVIEW = 1500  # characters: preview of such an answer
HANDLES = 64  # processes: processes whose screen and search position a toolbox caches

CODE_TIME = 300.0  # seconds: default for the run time of a script
CODE_CALLS = 50  # calls: tool calls of one script, failed ones included
CODE_REFUSED = 1000  # calls: refused calls of one script; one more ends it
CODE_STDOUT = 50_000  # bytes: a script's stdout in its answer, 40 % from the start
CODE_STDERR = 10_000  # bytes: a script's stderr in its answer, 40 % from the start
CODE_GATHERED = 64 << 20  # bytes: arguments of one script's calls in transit
CODE_FILES = 8 << 20  # bytes: files and images that a script adds to its answer
CODE_LOGGED = 100  # calls: newest calls in the log of a script's calls

WEB_TIME = 30.0  # seconds: default for a page to arrive, redirects included
WEB_PROVIDER = 60.0  # seconds: for the answer of a provider
WEB_CONNECT = 5.0  # seconds: for one address of a host to take a connection
WEB_BYTES = 10 << 20  # bytes: most of a page that is read, unpacked
# times: growth by unpacking from which on a page that is too long counts as a bomb
WEB_UNPACKED = 100
WEB_REDIRECTS = 5  # redirects: most redirects of a page
WEB_PARALLEL = 8  # fetches: fetches of one toolbox at the same time
WEB_EXTRACT = 20.0  # seconds: for a page's text to be extracted
WEB_EXTRACT_MEMORY = 1 << 30  # bytes: address space of the process that extracts it
WEB_EXTRACTS = 2  # processes: such processes of one toolbox at the same time
WEB_TEXT = 2_000_000  # characters: most of a page's text that is kept
WEB_CHARACTERS = 15_000  # characters: default of a page's text in an answer
WEB_PAGES = 5  # addresses: addresses in one call of web_extract
WEB_RESULTS = 100  # results: most results of one call of web_search
WEB_CACHE = 300.0  # seconds: for which a page is not fetched again
WEB_CACHED = 16  # pages: pages that are kept for that

TERMINALS = 128  # terminals: most terminals of persons that one console server starts
# seconds: lifetime of such a terminal without a viewer, new output or a running command
TERMINAL_IDLE = 1800.0
TERMINAL_REPLAY = 1 << 20  # bytes: past output that a new viewer of a terminal gets
SCREEN_REPLAY = 4 << 20  # bytes: most output replayed to draw a screen
SCREEN_CELLS = 1 << 18  # cells: largest terminal whose screen is drawn, rows times columns
SEARCH_WINDOW = 1 << 20  # bytes: longest stretch of output that a pattern can match in

READ_CHARACTERS = 100_000  # characters: most of a file in the answer to read_file
SEARCH = 60.0  # seconds: most that search_files takes
MATCH_LINE = 500  # characters: most of a matching line in the answer to search_files
GROUPED_MATCHES = 5  # matches: matches from which search_files groups its answer by files
READ_LINES = 2000  # lines: most of a file in the answer to read_file
LONG_LINE = 2000  # characters: most of a line in the answer to read_file; the rest is cut
LARGE_FILE = 512_000  # bytes: size beyond which read_file advises to search instead
DOCUMENT = 32 << 20  # bytes: largest notebook or office document shown as text, packed or unpacked
DOCUMENT_TEXT = 4 << 20  # characters: most text of a document; the rest is cut
DOCUMENT_ELEMENTS = 300_000  # elements: most elements of an office document that are read
REMEMBERED_FILES = 4096  # files: files whose readers and writers a toolbox remembers
PATCHED_FILE = 2 << 20  # bytes: largest file that can be edited; larger ones need a program
PATCH_DIFF = 20_000  # characters: most of a diff in the answer to an edit
PATCH_TRIES = 100  # tries: retries of an edit whose file changes meanwhile
PATCH_MISSES = 3  # misses: failed edits of one file in a row before it has to be read again

MODEL_OUTPUT = 50_000  # characters: most output in a tool's result; a line says how to read on

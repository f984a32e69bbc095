"""What a mirror runs in the environment, with the python3 there (3.8 or newer): take files in, give changed ones back.

Both work below a directory by descriptors and follow no link, so that what commands put there leads nowhere else.
"""

STAGING = ".hermetic-sync-"  # how the names of a mirror's own files begin; they are never part of what is mirrored

_SHARED = f"""\
import hashlib, os, shutil, stat, sys, tarfile
STAGING = {STAGING!r}
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
def remove(name, fd):
    try:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode):
            os.unlink(name, dir_fd=fd)
            return
    except FileNotFoundError:
        return
    inner = os.open(name, FOLDER, dir_fd=fd)
    try:
        for below in os.listdir(inner):
            remove(below, inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=fd)
"""

# Arguments: directory, and one in it with the archive `tar` and the list `gone` of paths, each ended by a NUL. All
# content is unpacked before anything is changed: a full disk changes nothing.
TAKE_IN = (
    _SHARED
    + """\
root, staging = sys.argv[1:]
top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
def folder(parts, makes):
    fd = os.dup(top)
    for part in parts:
        for attempt in (1, 2):
            try:
                inner = os.open(part, FOLDER, dir_fd=fd)
                break
            except OSError:
                if not makes or attempt == 2:
                    os.close(fd)
                    raise
                remove(part, fd)
                os.mkdir(part, 0o755, dir_fd=fd)
        os.close(fd)
        fd = inner
    return fd
def is_folder(name, fd):
    try:
        return stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode)
    except FileNotFoundError:
        return False
def place(member, staged):
    *above, name = member.name.split("/")
    fd = folder(above, True)
    try:
        if member.isdir():
            os.close(folder(member.name.split("/"), True))
            os.chmod(name, member.mode & 0o777, dir_fd=fd)
            return
        if is_folder(name, fd):
            remove(name, fd)
        os.rename(staged, name, dst_dir_fd=fd)
    finally:
        os.close(fd)
staged = []
with tarfile.open(staging + "/tar", "r:") as tar:
    for number, member in enumerate(tar):
        path = "%s/%d" % (staging, number)
        if member.issym():
            os.symlink(member.linkname, path)
        elif member.isreg():
            with open(path, "wb") as file:
                shutil.copyfileobj(tar.extractfile(member), file)
            os.chmod(path, member.mode & 0o777)
            stamp = int(member.pax_headers["HERMETIC.mtime"])
            os.utime(path, ns=(stamp, stamp))
        staged.append((member, path))
with open(staging + "/gone", "rb") as file:
    paths = [os.fsdecode(path) for path in file.read().split(b"\\0") if path]
for path in sorted(paths, reverse=True):
    *above, name = path.split("/")
    try:
        fd = folder(above, False)
    except OSError:
        continue
    try:
        if stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode):
            os.rmdir(name, dir_fd=fd)
        else:
            os.unlink(name, dir_fd=fd)
    except OSError:
        pass
    finally:
        os.close(fd)
for member, path in staged:
    place(member, path)
"""
)

# Arguments: directory, one in it with the list `known` of what was sent (path, digest, … each ended by a NUL), where
# the archive `tar` is made, and the most bytes in that. A digest is the SHA-256 of a file, "link " and a link's target,
# or "folder".
GIVE_BACK = (
    _SHARED
    + """\
root, staging, most = sys.argv[1:]
with open(staging + "/known", "rb") as file:
    words = file.read().split(b"\\0")[:-1]
sent = dict(zip(map(os.fsdecode, words[::2]), map(os.fsdecode, words[1::2])))
def digest(name, fd):
    with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd), "rb") as file:
        whole = hashlib.sha256()
        while True:
            piece = file.read(1 << 20)
            if not piece:
                return whole.hexdigest()
            whole.update(piece)
size = 0
with tarfile.open(staging + "/tar", "w:", format=tarfile.PAX_FORMAT) as tar:
    def give(member, fd, content):
        global size
        size += member.size + 1024
        if size > int(most):
            sys.exit("more than %s bytes have changed in %s" % (most, root))
        tar.addfile(member, content)
    for folder, folders, names, fd in os.fwalk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(STAGING))
        prefix = os.path.relpath(folder, root) + "/" if folder != root else ""
        for name in folders + sorted(names):
            if name.startswith(STAGING):
                continue
            seen = os.lstat(name, dir_fd=fd)
            member = tarfile.TarInfo(prefix + name)
            member.mode, member.mtime = stat.S_IMODE(seen.st_mode), int(seen.st_mtime)
            member.pax_headers = {"HERMETIC.mtime": str(seen.st_mtime_ns)}
            if stat.S_ISLNK(seen.st_mode):
                member.type, member.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=fd)
                if sent.get(prefix + name) != "link " + member.linkname:
                    give(member, fd, None)
            elif stat.S_ISDIR(seen.st_mode):
                member.type = tarfile.DIRTYPE
                if sent.get(prefix + name) != "folder":
                    give(member, fd, None)
            elif stat.S_ISREG(seen.st_mode) and sent.get(prefix + name) != digest(name, fd):
                with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd), "rb") as file:
                    member.size = os.fstat(file.fileno()).st_size
                    give(member, fd, file)
"""
)

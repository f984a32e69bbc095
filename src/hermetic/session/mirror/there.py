"""Scripts that a mirror runs in the environment, by the python3 there (3.8 or newer).

Both work below a directory by descriptors and follow no link, so that what commands put there leads
nowhere else.
"""

STAGING = ".hermetic-sync-"  # prefix of a mirror's own files, which are never mirrored

# Arguments: directory, and one in it with the archive `tar` and the list `gone` of paths, each
# ended by a NUL. All content is unpacked before anything is changed: a full disk changes nothing.
TAKE_IN = """\
import contextlib, os, shutil, stat, sys, tarfile
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
root, staging = sys.argv[1:]
new, modes = staging + "/new", {}
os.mkdir(new)
with tarfile.open(staging + "/tar", "r:") as tar:
    for member in tar:
        path, modes[member.name] = new + "/" + member.name, member.mode & 0o777
        if member.isdir():
            os.mkdir(path)
        elif member.issym():
            os.symlink(member.linkname, path)
        else:
            with open(path, "wb") as file:
                shutil.copyfileobj(tar.extractfile(member), file)
            os.chmod(path, modes[member.name])
            stamp = int(member.pax_headers["HERMETIC.mtime"])
            os.utime(path, ns=(stamp, stamp))
@contextlib.contextmanager
def folder(name, fd):
    inner = os.open(name, FOLDER, dir_fd=fd)
    try:
        yield inner
    finally:
        os.close(inner)
def is_folder(name, fd):
    try:
        return stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode)
    except FileNotFoundError:
        return False
def remove(name, fd):
    if is_folder(name, fd):
        with folder(name, fd) as inner:
            for below in os.listdir(inner):
                remove(below, inner)
        os.rmdir(name, dir_fd=fd)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=fd)
def drop(parts, fd):
    if len(parts) > 1:
        with folder(parts[0], fd) as inner:
            drop(parts[1:], inner)
    elif is_folder(parts[0], fd):
        os.rmdir(parts[0], dir_fd=fd)
    else:
        os.unlink(parts[0], dir_fd=fd)
def move(below, fd):
    for name in os.listdir(new + below):
        path = below + "/" + name
        if not stat.S_ISDIR(os.lstat(new + path).st_mode):
            if is_folder(name, fd):
                remove(name, fd)
            os.rename(new + path, name, dst_dir_fd=fd)
            continue
        if not is_folder(name, fd):
            remove(name, fd)
            os.mkdir(name, 0o755, dir_fd=fd)
        with folder(name, fd) as inner:
            move(path, inner)
            os.fchmod(inner, modes[path[1:]])
top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
with open(staging + "/gone", "rb") as file:
    gone = [os.fsdecode(path) for path in file.read().split(b"\\0") if path]
for path in sorted(gone, reverse=True):
    with contextlib.suppress(OSError):
        drop(path.split("/"), top)
move("", top)
"""

# Arguments: directory, one in it with the list `known` of what was sent (path, digest, … each ended
# by a NUL), where the archive `tar` is made, and the most bytes in that. A digest is the SHA-256 of
# a file, "link " and a link's target, or "folder".
GIVE_BACK = f"""\
import hashlib, os, stat, sys, tarfile
root, staging, most = sys.argv[1:]
with open(staging + "/known", "rb") as file:
    words = [os.fsdecode(word) for word in file.read().split(b"\\0")[:-1]]
sent, size = dict(zip(words[::2], words[1::2])), 0
def opened(name, fd):
    return open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd), "rb")
def digest(name, fd):
    whole = hashlib.sha256()
    with opened(name, fd) as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            whole.update(piece)
    return whole.hexdigest()
with tarfile.open(staging + "/tar", "w:", format=tarfile.PAX_FORMAT) as tar:
    for folder, folders, names, fd in os.fwalk(root):
        folders[:] = sorted(name for name in folders if not name.startswith({STAGING!r}))
        prefix = os.path.relpath(folder, root) + "/" if folder != root else ""
        for name in folders + sorted(names):
            seen, content = os.lstat(name, dir_fd=fd), None
            member = tarfile.TarInfo(prefix + name)
            member.mode, member.mtime = stat.S_IMODE(seen.st_mode), int(seen.st_mtime)
            member.pax_headers = {{"HERMETIC.mtime": str(seen.st_mtime_ns)}}
            if name.startswith({STAGING!r}):
                continue
            elif stat.S_ISLNK(seen.st_mode):
                member.type, member.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=fd)
                found = "link " + member.linkname
            elif stat.S_ISDIR(seen.st_mode):
                member.type, found = tarfile.DIRTYPE, "folder"
            elif stat.S_ISREG(seen.st_mode):
                found = digest(name, fd)
            else:
                continue
            if found == sent.get(member.name):
                continue
            if member.isreg():
                content = opened(name, fd)
                member.size = os.fstat(content.fileno()).st_size
            size += member.size + 1024
            if size > int(most):
                sys.exit("more than %s bytes have changed in %s" % (most, root))
            tar.addfile(member, content)
            if content:
                content.close()
"""

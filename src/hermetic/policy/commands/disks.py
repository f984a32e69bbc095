"""Disks and volumes: formatting, partitioning, erasing."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import write
from hermetic.policy.marks import DEVICE, LOCAL, shown
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

FORMAT = Rule(
    name="format-disk",
    category="disk-write",
    severity=10,
    effects=("deletes", "writes"),
    hardline=True,
    catches=(
        "mkfs.ext4 /dev/sda1",
        "wipefs -a /dev/sda",
        "sudo fdisk /dev/sda",
        "blkdiscard /dev/nvme0n1",
        "cryptsetup luksFormat /dev/sdb1",
    ),
    spares=("fdisk -l", "mkfs.ext4 -V", "mkfs.ext4 ./disk.img", "lsblk", "parted -l"),
)


def judge_format(call: Call) -> str | None:
    """mkfs, wipefs and kin act on a device or an image."""
    if any(arg in ("--help", "--version", "-V", "-n", "--no-act") for arg in call.args) and call.name != "sgdisk":
        return None
    targets = [arg for arg in call.args if not arg.startswith("-") and ("/" in arg or "." in arg)]
    if call.name == "wipefs" and not any(re.match(r"-\w*[ao]|--all|--offset", arg) for arg in call.args):
        return None
    for target in [arg for arg in call.args if re.match(r"[A-Za-z]:[\\/]?$", arg)]:
        call.report(FORMAT, f"destroys what is on a disk: {shown(target)}")
    for target in targets or ([arg for arg in call.args if not arg.startswith("-")][-1:]):
        full, place = call.place(target)
        if place in ("workspace", "temp"):
            write(call, target)
        else:
            call.report(FORMAT, f"destroys what is on a disk: {shown(target)}", full)
    return None


def judge_partition(call: Call) -> str | None:
    """fdisk, parted, sgdisk, hdparm, nvme …: listing is fine, the rest is not."""
    text = " ".join(call.args)
    reads = {
        "fdisk": r"(^|\s)(-l|--list|-s|-V|--version|-x)",
        "sfdisk": r"(^|\s)(-l|--list|-d|--dump|-V|-J|--json|--verify)",
        "cfdisk": r"--version|--help",
        "gdisk": r"(^|\s)-l",
        "sgdisk": r"(^|\s)(-p|-v|-i\s*\d+|--print|--info|-V|--version)",
        "parted": r"(^|\s)(print|-l|--list|unit\s+\w+\s+print|--version)$|print( free| all)?$",
        "hdparm": r"^\s*-[ItTigvC]+\s|^-I|--help",
        "nvme": r"^(list|smart-log|id-ctrl|id-ns|show-regs|version|error-log|get-\w+|help|list-subsys)",
        "smartctl": r"(^|\s)-[aAixHlc]+",
        "losetup": r"^(-a|-l|--list|--all|-j.*|)$",
        "cryptsetup": r"^(status|luksDump|isLuks|benchmark|--version|luksUUID)",
        "tune2fs": r"(^|\s)-l",
        "e2fsck": r"(^|\s)-n",
        "fsck": r"(^|\s)-[nN]",
        "xfs_repair": r"(^|\s)-n",
        "badblocks": r"^(?!.*-w)",
        "resize2fs": r"(^|\s)-P",
        "blockdev": r"--(get|report)",
        "mdadm": r"--(detail|examine|query)|-[DEQ]",
        "ddrescue": r"--version",
        "qemu-img": r"^(info|check|compare|map|measure|--help|--version)",
        "dmsetup": r"^(ls|info|status|table|version|deps|targets)",
        "debugfs": r"^(?!.*-w)",
        "sdparm": r"(?!.*(set|clear|command))",
        "sg_format": r"--help",
        "zpool": r"^(list|status|iostat|get|history|events|version)",
        "zfs": r"^(list|get|mount$|snapshot|diff|version|send|holds)",
        "btrfs": (
            r"^(filesystem (show|df|usage|du)|subvolume (list|show|snapshot)|device (stats|usage)|"
            r"scrub status|--version|property get|inspect)"
        ),
    }
    if (call.name in reads and re.search(reads[call.name], text)) or any(arg in ("--help",) for arg in call.args):
        return None
    destroys = {
        "zpool": r"^(destroy|labelclear|remove|detach|create|export|clear|offline|replace|split)",
        "zfs": r"^(destroy|rollback|unmount|unload-key|rename|set|receive|recv)",
        "btrfs": r"^(subvolume delete|device (delete|remove)|filesystem resize|balance|check --repair|rescue)",
    }
    if call.name in destroys and not re.search(destroys[call.name], text):
        return None
    if call.name in ("qemu-img", "ddrescue"):
        words = [arg for arg in call.args if not arg.startswith("-")]
        for arg in words[1:2] if call.name == "ddrescue" else words[-1:]:
            write(call, arg)
        return None
    if call.name == "losetup" and not any(arg.startswith("-d") or arg == "-D" for arg in call.args):
        return None
    images = [
        arg
        for arg in call.args
        if not arg.startswith("-") and "/" not in arg and re.search(r"\.(img|qcow2|raw|iso)$", arg)
    ]
    if call.args and not images:
        call.report(FORMAT, "changes how a disk is laid out, or erases it")
    return None


def judge_lvm(call: Call) -> str | None:
    """lvremove, vgremove, pvremove …"""
    harmless = ("-t", "--test", "--help", "--version", "-V", "-h")
    if call.args and not any(arg in harmless for arg in call.args):
        call.report(FORMAT, "removes or shrinks a volume")
    return None


def judge_swap(call: Call) -> str | None:
    """mkswap and swapon on a device or file."""
    for path in call.args:
        if not path.startswith("-"):
            write(call, path)
    return None


def judge_listing(call: Call) -> str | None:
    """lsblk, findmnt, blkid, df, pvs: they print the names of disks."""
    shows = re.search(r"(?i)(--output|-\w*o)[= ]?\s*(\S+)", " ".join(call.args))
    if shows and not re.search(r"(?i)name|source|device|kname|path|pv|lv|vg", shows[2]):
        return LOCAL + "\n"
    return DEVICE + LOCAL + "\n"


RULES = (FORMAT,)

JUDGES: dict[str, Judge] = {
    **dict.fromkeys(
        names(
            """
mkfs mke2fs wipefs blkdiscard mkntfs mkdosfs mkreiserfs newfs newfs_apfs newfs_hfs mkudffs pvcreate vgcreate
format sg_sanitize scrub nwipe dban bcache
"""
        ),
        judge_format,
    ),
    **dict.fromkeys(
        (
            f"mkfs.{kind}"
            for kind in names(
                """
ext2 ext3 ext4 xfs btrfs vfat fat ntfs exfat f2fs jfs minix msdos reiserfs bfs cramfs nilfs2 erofs udf
"""
            )
        ),
        judge_format,
    ),
    **dict.fromkeys(
        names(
            """
fdisk sfdisk cfdisk gdisk sgdisk parted hdparm nvme losetup cryptsetup tune2fs e2fsck fsck xfs_repair badblocks
resize2fs blockdev mdadm ddrescue qemu-img dmsetup debugfs sdparm sg_format zpool zfs btrfs gparted shrink
"""
        ),
        judge_partition,
    ),
    **dict.fromkeys(
        names(
            """
lvremove vgremove pvremove lvreduce vgreduce lvresize thin_trim vgexport
"""
        ),
        judge_lvm,
    ),
    "mkswap": judge_swap,
    **dict.fromkeys(names("lsblk findmnt blkid df pvs lvs vgs swapon_show dfc duf"), judge_listing),
}

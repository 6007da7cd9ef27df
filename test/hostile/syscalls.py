"""Raw system calls by name, on both architectures: sent into a box as the head of a program."""
PROGRAM = r'''
import ctypes, errno, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
A = platform.machine() == "aarch64"
NR = {name: (a if A else x) for name, a, x in (
    ("mount", 40, 165), ("umount2", 39, 166), ("pivot_root", 41, 155), ("fsopen", 430, 430),
    ("fsmount", 432, 432), ("fsconfig", 431, 431), ("open_tree", 428, 428), ("move_mount", 429, 429),
    ("mount_setattr", 442, 442), ("bpf", 280, 321), ("perf_event_open", 241, 298),
    ("userfaultfd", 282, 323), ("io_uring_setup", 425, 425), ("keyctl", 219, 250),
    ("add_key", 217, 248), ("request_key", 218, 249), ("init_module", 105, 175),
    ("finit_module", 273, 313), ("delete_module", 106, 176), ("kexec_load", 104, 246),
    ("reboot", 142, 169), ("swapon", 224, 167), ("swapoff", 225, 168), ("acct", 89, 163),
    ("sethostname", 161, 170), ("setdomainname", 162, 171), ("settimeofday", 170, 164),
    ("clock_settime", 112, 227), ("clock_adjtime", 266, 305), ("adjtimex", 171, 159),
    ("unshare", 97, 272), ("setns", 268, 308), ("clone3", 435, 435), ("clone", 220, 56),
    ("syslog", 116, 103), ("quotactl", 60, 179), ("kcmp", 272, 312), ("vhangup", 58, 153),
    ("fanotify_init", 262, 300), ("memfd_secret", 447, 447), ("name_to_handle_at", 264, 303),
    ("open_by_handle_at", 265, 304), ("personality", 92, 135), ("pidfd_getfd", 438, 438),
    ("process_madvise", 440, 440), ("mbind", 235, 237), ("move_pages", 239, 279),
    ("ptrace", 117, 101), ("process_vm_writev", 271, 311), ("ioctl", 29, 16))}
BUF = ctypes.create_string_buffer(4096)
def call(name, *args):
    """The errno's name, or "ok"."""
    ctypes.set_errno(0)
    words = [ctypes.c_long(x) if isinstance(x, int) else
             ctypes.c_char_p(x) if isinstance(x, bytes) else x for x in args]
    result = libc.syscall(ctypes.c_long(NR[name]), *words)
    return "ok" if result >= 0 else errno.errorcode.get(ctypes.get_errno(), "?")
'''


def calls(*lines):
    """A program that prints `name=errno` for each line such as 'mount(b"none", b"/mnt")'."""
    program = PROGRAM
    for line in lines:
        name, _, args = line.partition("(")
        program += "print('%s=' + call('%s'%s), flush=True)\n" % (
            name, name, ", " + args[:-1] if args[:-1] else "")
    return program


def verdicts(text):
    return dict(line.split("=", 1) for line in text.split() if "=" in line)

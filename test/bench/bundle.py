#!/usr/bin/env python3
"""An OCI bundle's config.json on stdout: bundle.py ROOT CGROUP_PATH ARG..."""
import json
import sys

root, cgroup, argv = sys.argv[1], sys.argv[2], sys.argv[3:]
caps = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID", "CAP_KILL"]
nosuid = ["nosuid", "noexec", "nodev"]
print(json.dumps({
    "ociVersion": "1.0.0",
    "process": {
        "terminal": False, "user": {"uid": 0, "gid": 0}, "args": argv, "cwd": "/",
        "env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "noNewPrivileges": True,
        "capabilities": {k: caps for k in ("bounding", "effective", "permitted")},
    },
    "root": {"path": root, "readonly": True},
    "hostname": "bench",
    "mounts": [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
         "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": nosuid},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmp", "options": ["nosuid", "nodev"]},
        {"destination": "/usr", "type": "bind", "source": "/usr",
         "options": ["rbind", "ro", "nosuid", "nodev"]},
    ],
    "linux": {
        "namespaces": [{"type": t} for t in ("pid", "network", "ipc", "uts", "mount")],
        "cgroupsPath": cgroup,
        "resources": {"memory": {"limit": 512 << 20}, "pids": {"limit": 256},
                      "cpu": {"quota": 100000, "period": 100000}},
        "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi"],
        "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        "seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["mount", "umount2", "reboot", "kexec_load", "bpf", "unshare", "setns"],
             "action": "SCMP_ACT_ERRNO"}]},
    },
}))

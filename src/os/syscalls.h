// The system calls of each role of the binary, by name, NULL-terminated: collected by the build
// from the `// syscalls:` lines of the sources that are linked with the role's entry point.
#pragma once

extern const char *const syscalls_daemon[], *const syscalls_warden[];

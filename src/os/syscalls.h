// The system calls of each role of the binary, by name, NULL-ended: gathered by the build from the
// `// syscalls:` lines of those sources that a link with the role's entry point takes in.
#pragma once

extern const char *const syscalls_daemon[], *const syscalls_warden[];

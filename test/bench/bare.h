// The least that runs a command for a client over HTTP: no box, no key, no record, one client,
// blocking. What cove takes beyond it is what cove does.
#pragma once

#include <sys/types.h>

struct bare {
	pid_t pid;
	int port;
};

// A server of its own over HTTP, which runs /bin/true at each request, with pipes for its output.
void bare_open(struct bare *bare);
void bare_close(struct bare *bare);

// Quotas as the disk of a sandbox has them, in the file system of that directory.
void bare_disk(const char *dir);
// Bytes of another process over loopback into a new file, by splice, and the file's to another
// process, by sendfile: what the kernel and that file system can do. GB/s.
double bare_upload(const char *path, size_t len);
double bare_download(const char *path, size_t len);

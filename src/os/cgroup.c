// Finds the cgroup mounts of the host in /proc/self/mountinfo and assigns each controller to one.
// Mounts beyond CGROUP_MOUNTS_MAX, or with an escaped path, are ignored.
#include "os/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "os/fd.h"

#define MOUNTINFO_MAX (1 << 20) // a longer mountinfo is not read to its end

static const char *const words[CGROUP_COUNT] = {
#define X(name, word) word,
	CGROUP_CONTROLLERS(X)
#undef X
};

// The controllers named in `list`, separated by `mark`.
static unsigned named(struct str list, char mark)
{
	unsigned mask = 0;
	struct str word;

	while (str_cut(&list, mark, &word))
		for (int i = 0; i < CGROUP_COUNT; i++)
			if (str_is(str_trim(word), words[i]))
				mask |= 1u << i;
	return mask;
}

static unsigned controllers_of_v2(const char *path)
{
	char file[300], text[512];
	ssize_t len;

	snprintf(file, sizeof(file), "%s/cgroup.controllers", path);
	len = fd_get(AT_FDCWD, file, text, sizeof(text));
	if (len <= 0)
		return 0;
	if (text[len - 1] == '\n')
		len--;
	return named((struct str){text, (size_t)len}, ' ');
}

// id parent dev root MOUNTPOINT options [tags] - TYPE source SUPEROPTIONS
static void cgroup_read_line(struct str line, struct cgroup_host *host)
{
	struct cgroup_mount *mount = &host->mounts[host->count];
	struct str fields[5], type, source, options, word;

	for (int i = 0; i < 5; i++)
		if (!str_cut(&line, ' ', &fields[i]))
			return;
	while (str_cut(&line, ' ', &word) && !str_is(word, "-"))
		;
	if (!str_cut(&line, ' ', &type) || !str_cut(&line, ' ', &source) ||
	    !str_cut(&line, ' ', &options))
		return;
	if (!str_is(type, "cgroup") && !str_is(type, "cgroup2"))
		return;
	// A blank in the mount point of a cgroup is not supported.
	if (host->count == CGROUP_MOUNTS_MAX || fields[4].len >= sizeof(mount->path) ||
	    memchr(fields[4].at, '\\', fields[4].len))
		return;
	memcpy(mount->path, fields[4].at, fields[4].len);
	mount->path[fields[4].len] = 0;
	mount->version = str_is(type, "cgroup2") ? 2 : 1;
	mount->controllers = mount->version == 2 ? controllers_of_v2(mount->path)
						 : named(options, ',');
	host->count++;
}

static void cgroup_place(struct cgroup_host *host)
{
	host->unified = -1;
	for (int c = 0; c < CGROUP_COUNT; c++)
		host->where[c] = -1;
	for (int i = 0; i < host->count; i++) {
		if (host->mounts[i].version == 2 && host->unified < 0)
			host->unified = i;
		for (int c = 0; c < CGROUP_COUNT; c++)
			if (host->where[c] < 0 && host->mounts[i].controllers & 1u << c)
				host->where[c] = i;
	}
}

fallible cgroup_discover(struct cgroup_host *out)
{
	auto_free char *text = mem_new(MOUNTINFO_MAX);
	ssize_t len = fd_get(AT_FDCWD, "/proc/self/mountinfo", text, MOUNTINFO_MAX);
	struct str rest, line;

	if (len < 0)
		return err_sys(errno, "read /proc/self/mountinfo");
	*out = (struct cgroup_host){0};
	rest = (struct str){text, (size_t)len};
	while (str_cut(&rest, '\n', &line))
		cgroup_read_line(line, out);
	cgroup_place(out);
	return OK;
}

const char *cgroup_controller_word(enum cgroup_controller controller)
{
	return words[controller];
}

const char *cgroup_word(const struct cgroup_host *host)
{
	bool old = false;

	for (int i = 0; i < host->count; i++)
		old |= host->mounts[i].version == 1 && host->mounts[i].controllers;
	if (host->unified < 0)
		return old ? "v1" : "none";
	return old ? "hybrid" : "v2";
}

fallible cgroup_instance(int data, char out[CGROUP_INSTANCE_ROOM])
{
	uint8_t hash[SECRET_HASH];
	struct stat st;
	uint64_t key[2];

	if (fstat(data, &st))
		return err_sys(errno, "look at the data directory");
	key[0] = st.st_dev;
	key[1] = st.st_ino;
	secret_sha256(key, sizeof(key), hash);
	for (int i = 0; i + 1 < CGROUP_INSTANCE_ROOM; i += 2)
		snprintf(out + i, 3, "%02x", hash[i / 2]);
	return OK;
}

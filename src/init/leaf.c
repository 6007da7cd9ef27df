#include "init/leaf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "os/fd.h"

bool leaf_learn(struct leaf *leaf, bool by_clone, const int *fds)
{
	int events = -1;

	if (by_clone) {
		events = openat(fds[0], "cgroup.events", O_RDONLY | O_CLOEXEC);
		if (events < 0) {
			close(fds[0]);
			return false;
		}
	}
	if (leaf->known)
		for (int i = 0; i < 2; i++)
			close(leaf->join[i]);
	leaf->join[0] = fds[0];
	leaf->join[1] = by_clone ? events : fds[1];
	leaf->known = true;
	return true;
}

static bool has_no_events(int events)
{
	char text[128];
	ssize_t n = pread(events, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = 0;
	return strstr(text, "populated 0") != NULL;
}

// A v1 `tasks` file that stays open repeats what it said up to a second ago, so it is opened anew
// each time, through the fd.
static bool has_no_tasks(int tasks)
{
	char path[32] = "/proc/self/fd/";
	char *at = path + strlen(path), digits[12], byte;
	int n = 0;
	ssize_t got;
	int fd;

	do {
		digits[n++] = (char)('0' + tasks % 10);
		tasks /= 10;
	} while (tasks > 0);
	while (n > 0)
		*at++ = digits[--n];
	*at = 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, &byte, 1);
	close(fd);
	return got == 0;
}

bool leaf_is_empty(const struct leaf *leaf, bool by_clone)
{
	return by_clone ? has_no_events(leaf->join[1]) : has_no_tasks(leaf->join[0]);
}

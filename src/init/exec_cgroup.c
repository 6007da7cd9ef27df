// Fds of exec cgroups: joining them and asking whether they are empty. On v2 the answer is in
// cgroup.events, on v1 in `tasks`. A read that fails, or an output longer than the buffer, counts
// as not empty.
#include "init/exec_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"

bool exec_cgroup_learn(struct exec_cgroup *exec_cgroup, bool by_clone, const int *fds)
{
	int events = -1;

	if (by_clone) {
		events = openat(fds[0], "cgroup.events", O_RDONLY | O_CLOEXEC);
		if (events < 0) {
			close(fds[0]);
			return false;
		}
	}
	if (exec_cgroup->known)
		for (int i = 0; i < 2; i++)
			close(exec_cgroup->join[i]);
	exec_cgroup->join[0] = fds[0];
	exec_cgroup->join[1] = by_clone ? events : fds[1];
	exec_cgroup->known = true;
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

// Writes `number` and the character `end`. Returns the end of the text.
static char *put_number(char *at, int number, char end)
{
	char digits[12];
	int n = 0;

	do {
		digits[n++] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	while (n > 0)
		*at++ = digits[--n];
	*at++ = end;
	return at;
}

// An open v1 `tasks` file repeats content up to a second old, so it is opened again each time,
// through the fd.
static ssize_t read_tasks(int tasks, char *room, size_t size)
{
	char path[32] = "/proc/self/fd/";
	ssize_t got;
	int fd;

	put_number(path + strlen(path), tasks, 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	got = read(fd, room, size);
	close(fd);
	return got;
}

bool exec_cgroup_is_empty(const struct exec_cgroup *exec_cgroup, bool by_clone)
{
	char byte;

	return by_clone ? has_no_events(exec_cgroup->join[1])
			: read_tasks(exec_cgroup->join[0], &byte, 1) == 0;
}

int exec_cgroup_open_procs(const struct exec_cgroup *exec_cgroup, bool by_clone)
{
	return by_clone ? openat(exec_cgroup->join[0], "cgroup.procs", O_RDONLY | O_CLOEXEC) : -1;
}

bool exec_cgroup_holds_only(const struct exec_cgroup *exec_cgroup, bool by_clone, int procs,
			    const int *pids, int count)
{
	char text[64];
	ssize_t n = by_clone ? pread(procs, text, sizeof(text), 0)
			     : read_tasks(exec_cgroup->join[0], text, sizeof(text));
	struct str rest = {text, n > 0 ? (size_t)n : 0}, line;
	uint64_t pid;

	// No process at all: the known ones have just died.
	if (n < 0 || n == sizeof(text))
		return false;
	while (rest.len > 0 && str_cut(&rest, '\n', &line)) {
		int i = 0;

		if (!str_to_u64(line, 1, INT32_MAX, &pid))
			return false;
		while (i < count && (int)pid != pids[i])
			i++;
		if (i == count)
			return false;
	}
	return true;
}

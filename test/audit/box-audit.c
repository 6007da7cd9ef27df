// box-audit: prints what a process of a fresh box is and may do. Compared with a golden file per
// architecture; whatever differs is either an intended change or a hole.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "audit.h"

const char *audit_errno(int errnum)
{
	static const struct {
		int number;
		const char *name;
	} names[] = {
		{0, "ok"},
		{EPERM, "EPERM"},
		{ENOENT, "ENOENT"},
		{ESRCH, "ESRCH"},
		{EBADF, "EBADF"},
		{EAGAIN, "EAGAIN"},
		{ENOMEM, "ENOMEM"},
		{EACCES, "EACCES"},
		{EFAULT, "EFAULT"},
		{EBUSY, "EBUSY"},
		{EEXIST, "EEXIST"},
		{ENODEV, "ENODEV"},
		{ENOTDIR, "ENOTDIR"},
		{EINVAL, "EINVAL"},
		{ENOTTY, "ENOTTY"},
		{ENOSPC, "ENOSPC"},
		{EROFS, "EROFS"},
		{ENOSYS, "ENOSYS"},
		{EOPNOTSUPP, "EOPNOTSUPP"},
		{EPROTONOSUPPORT, "EPROTONOSUPPORT"},
		{ESOCKTNOSUPPORT, "ESOCKTNOSUPPORT"},
		{EAFNOSUPPORT, "EAFNOSUPPORT"},
		{EPROTOTYPE, "EPROTOTYPE"},
	};
	static char other[32];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].number == errnum)
			return names[i].name;
	snprintf(other, sizeof(other), "errno %d", errnum);
	return other;
}

const char *audit_text(const char *path, char *room, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t len = 0;
	ssize_t n;

	while (fd >= 0 && len < size - 1 && (n = read(fd, room + len, size - 1 - len)) > 0)
		len += (size_t)n;
	room[len] = 0;
	if (fd >= 0)
		close(fd);
	return room;
}

static void ids(void)
{
	uid_t r, e, s;
	gid_t groups[64];
	int count = getgroups(64, groups);
	mode_t mask = umask(022);

	umask(mask);
	getresuid(&r, &e, &s);
	printf("uid %u %u %u\n", r, e, s);
	getresgid(&r, &e, &s);
	printf("gid %u %u %u\n", r, e, s);
	printf("groups");
	for (int i = 0; i < count; i++)
		printf(" %u", groups[i]);
	printf("\numask %03o\n", (unsigned)mask);
}

static void status(void)
{
	static const char *const wanted[] = {"SigBlk",	"SigIgn",	   "CapInh", "CapPrm",
					     "CapEff",	"CapBnd",	   "CapAmb", "NoNewPrivs",
					     "Seccomp", "Seccomp_filters", NULL};
	static char text[16384];
	char *rest = text, *line;

	audit_text("/proc/self/status", text, sizeof(text));
	while ((line = strsep(&rest, "\n"))) {
		char *value = strchr(line, ':');

		if (!value)
			continue;
		*value++ = 0;
		for (int i = 0; wanted[i]; i++)
			if (strcmp(line, wanted[i]) == 0)
				printf("status %s %s\n", line, value + strspn(value, "\t "));
	}
	printf("dumpable %d\n", prctl(PR_GET_DUMPABLE));
	printf("securebits %d\n", prctl(PR_GET_SECUREBITS));
	rest = text;
	audit_text("/proc/self/oom_score_adj", text, sizeof(text));
	printf("oom_score_adj %s", text);
}

static void limit(const char *name, int what, int with_hard)
{
	struct rlimit now;

	getrlimit(what, &now);
	printf("limit %s %llu", name, (unsigned long long)now.rlim_cur);
	if (with_hard)
		printf(" %llu", (unsigned long long)now.rlim_max);
	printf("\n");
}

static void limits(void)
{
	limit("core", RLIMIT_CORE, 1);
	limit("nofile", RLIMIT_NOFILE, 0); // the hard one is the host's to bound
	limit("msgqueue", RLIMIT_MSGQUEUE, 1);
	limit("sigpending", RLIMIT_SIGPENDING, 1);
	// With 0 a piped core_pattern would start its helper on the host: answered, not done.
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	limit("core-after-lowering", RLIMIT_CORE, 1);
}

static void fds(void)
{
	for (int fd = 0; fd < 1024; fd++) {
		struct stat st;

		if (fstat(fd, &st) < 0)
			continue;
		if (S_ISCHR(st.st_mode))
			printf("fd %d char %u:%u\n", fd, major(st.st_rdev), minor(st.st_rdev));
		else
			printf("fd %d %s\n", fd,
			       S_ISFIFO(st.st_mode)   ? "pipe"
			       : S_ISSOCK(st.st_mode) ? "socket"
			       : S_ISDIR(st.st_mode)  ? "directory"
						      : "file");
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void environment(void)
{
	static char *names[256];
	int count = 0;

	for (char **at = environ; *at && count < 256; at++)
		names[count++] = strndup(*at, strcspn(*at, "="));
	qsort(names, (size_t)count, sizeof(*names), by_name);
	for (int i = 0; i < count; i++)
		printf("env %s\n", names[i]);
}

void audit_self(void)
{
	char cwd[4096];

	ids();
	status();
	limits();
	fds();
	environment();
	printf("cwd %s\n", getcwd(cwd, sizeof(cwd)) ? cwd : audit_errno(errno));
}

int main(void)
{
	audit_self();
	audit_places();
	audit_calls();
	return fflush(stdout) != 0;
}

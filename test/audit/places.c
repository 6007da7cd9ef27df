// Namespaces, mounts, /proc, /sys and /dev. What depends on the kernel's configuration (which files
// of /proc exist to be masked) is told as a fact that does not: closed, or open.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "audit.h"

#define LINES 512
#define DEPTH 12

static char *lines[LINES];
static int line_count;

static void keep(const char *line)
{
	if (line_count < LINES)
		lines[line_count++] = strdup(line);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print_kept(void)
{
	qsort(lines, (size_t)line_count, sizeof(*lines), by_text);
	for (int i = 0; i < line_count; i++) {
		printf("%s\n", lines[i]);
		free(lines[i]);
	}
	line_count = 0;
}

// The first namespaces of a kernel have fixed or very low numbers.
static void namespaces(void)
{
	static const char *const names[] = {"cgroup", "ipc",  "mnt", "net", "pid",
					    "time",   "user", "uts", NULL};
	char path[64], link[64], text[256];

	for (int i = 0; names[i]; i++) {
		unsigned long number = 0;
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = 0;
		if (strchr(link, '['))
			number = strtoul(strchr(link, '[') + 1, NULL, 10);
		printf("namespace %s %s\n", names[i],
		       number == 0	       ? "unknown"
		       : number < 4026532100ul ? "the host's"
					       : "own");
	}
	for (int i = 0; i < 2; i++) {
		unsigned inside = 0, outside = 0, count = 0;

		audit_text(i ? "/proc/self/gid_map" : "/proc/self/uid_map", text, sizeof(text));
		sscanf(text, "%u %u %u", &inside, &outside, &count);
		printf("%s from %u, %u of them, %s\n", i ? "gids" : "uids", inside, count,
		       outside >= 1 << 20 && outside % 65536 == 0 ? "shifted" : "not shifted");
	}
}

static void namespace_limits(void)
{
	static const char *const names[] = {"max_cgroup_namespaces",
					    "max_inotify_instances",
					    "max_inotify_watches",
					    "max_ipc_namespaces",
					    "max_mnt_namespaces",
					    "max_net_namespaces",
					    "max_pid_namespaces",
					    "max_time_namespaces",
					    "max_user_namespaces",
					    "max_uts_namespaces",
					    NULL};
	char path[96], text[64];

	for (int i = 0; names[i]; i++) {
		snprintf(path, sizeof(path), "/proc/sys/user/%s", names[i]);
		audit_text(path, text, sizeof(text));
		printf("sysctl user.%s %s", names[i], text[0] ? text : "unreadable\n");
	}
}

static void cgroups(void)
{
	static char text[8192];
	char *rest = text, *line;
	int strange = 0;

	audit_text("/proc/self/cgroup", text, sizeof(text));
	while ((line = strsep(&rest, "\n"))) {
		char *path = strchr(line, ':');

		path = path ? strchr(path + 1, ':') : NULL;
		if (!path++)
			continue;
		if (strcmp(path, "/") == 0 ||
		    (strncmp(path, "/x-", 3) == 0 && path[3 + strspn(path + 3, "0123456789")] == 0))
			continue;
		printf("cgroup %s\n", path);
		strange++;
	}
	printf("cgroup paths %s\n", strange ? "leak" : "begin at the box");
}

static const char *const masked[] = {"kcore",
				     "keys",
				     "key-users",
				     "kallsyms",
				     "kmsg",
				     "kpagecount",
				     "kpageflags",
				     "kpagecgroup",
				     "vmallocinfo",
				     "slabinfo",
				     "zoneinfo",
				     "pagetypeinfo",
				     "timer_list",
				     "sched_debug",
				     "config.gz",
				     "iomem",
				     "ioports",
				     "modules",
				     "cmdline",
				     "partitions",
				     "diskstats",
				     "interrupts",
				     "consoles",
				     "cgroups",
				     "sysrq-trigger",
				     "acpi",
				     "scsi",
				     "asound",
				     "pressure/cpu",
				     "pressure/io",
				     "pressure/memory",
				     NULL};
static const char *const read_only[] = {"sys", "irq", "bus", "fs", "driver", NULL};

static int is_known(const char *name)
{
	for (int i = 0; masked[i]; i++)
		if (strcmp(name, masked[i]) == 0)
			return 1;
	for (int i = 0; read_only[i]; i++)
		if (strcmp(name, read_only[i]) == 0)
			return 1;
	return strcmp(name, "pressure") == 0 || strncmp(name, "pressure/", 9) == 0;
}

static const char *has(const char *options, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = options; (at = strstr(at, word)); at += len)
		if ((at == options || at[-1] == ',') && (at[len] == ',' || at[len] == 0))
			return word;
	return NULL;
}

static void mount_line(char *line)
{
	static char root[4096], point[4096], options[1024], type[64], source[4096], super[8192];
	static char text[20000];
	const char *flags[] = {"ro", "rw", "nosuid", "nodev", "noexec"};
	char *tail = strstr(line, " - ");
	int len;

	if (!tail || sscanf(line, "%*s %*s %*s %4095s %4095s %1023s", root, point, options) != 3 ||
	    sscanf(tail + 3, "%63s %4095s %8191s", type, source, super) != 3)
		return;
	if (strncmp(point, "/proc/", 6) == 0 && is_known(point + 6))
		return; // whether the kernel has it varies; that it is closed is told below
	len = snprintf(text, sizeof(text), "mount %s %s", point, type);
	for (int i = 0; i < 5; i++)
		if (has(options, flags[i]))
			len += snprintf(text + len, sizeof(text) - (size_t)len, " %s", flags[i]);
	if (strcmp(root, "/") != 0)
		snprintf(text + len, sizeof(text) - (size_t)len, " of %s", root);
	keep(text);
	// A name that begins at a root would be one of the host's.
	if (source[0] == '/' || strstr(super, "=/") || strstr(super, ":/")) {
		snprintf(text, sizeof(text), "mount %s tells %s %s", point, source, super);
		keep(text);
	}
}

static void mounts(void)
{
	static char text[65536];
	char *rest = text, *line;

	audit_text("/proc/self/mountinfo", text, sizeof(text));
	while ((line = strsep(&rest, "\n")))
		mount_line(line);
	print_kept();
}

static void masks(void)
{
	static char text[64];
	char path[96];

	for (int i = 0; masked[i]; i++) {
		struct stat st;
		struct dirent *entry = NULL;
		DIR *dir;
		int closed = 1;

		snprintf(path, sizeof(path), "/proc/%s", masked[i]);
		if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
			dir = opendir(path);
			while (dir && (entry = readdir(dir)) && entry->d_name[0] == '.')
				continue;
			closed = !entry;
			if (dir)
				closedir(dir);
		} else {
			closed = audit_text(path, text, sizeof(text))[0] == 0;
		}
		printf("mask /proc/%s %s\n", masked[i], closed ? "closed" : "OPEN");
	}
}

// Opens for writing what can be, and writes nothing.
static void find_writable(const char *dir, int depth)
{
	DIR *at = depth < DEPTH ? opendir(dir) : NULL;
	struct dirent *entry;
	char path[4096], line[4200];
	struct stat st;
	int fd;

	while (at && (entry = readdir(at))) {
		if (entry->d_name[0] == '.' ||
		    snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) >= (int)sizeof(path))
			continue;
		if (depth == 0 && (strspn(entry->d_name, "0123456789") == strlen(entry->d_name)))
			continue; // processes: what one may do to itself is its own affair
		if (lstat(path, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode))
			find_writable(path, depth + 1);
		else if (S_ISREG(st.st_mode) &&
			 (fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW)) >= 0) {
			snprintf(line, sizeof(line), "writable %s", path);
			keep(line);
			close(fd);
		}
	}
	if (at)
		closedir(at);
}

static void find_devices(const char *dir, int depth)
{
	DIR *at = depth < DEPTH ? opendir(dir) : NULL;
	struct dirent *entry;
	char path[4096], to[256], line[4800];
	struct stat st;

	while (at && (entry = readdir(at))) {
		ssize_t n;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) >=
			    (int)sizeof(path) ||
		    lstat(path, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode)) {
			snprintf(line, sizeof(line), "dev %s/", path);
			keep(line);
			find_devices(path, depth + 1);
			continue;
		}
		if (S_ISLNK(st.st_mode)) {
			n = readlink(path, to, sizeof(to) - 1);
			to[n > 0 ? n : 0] = 0;
			snprintf(line, sizeof(line), "dev %s -> %s", path, to);
		} else {
			snprintf(line, sizeof(line), "dev %s %c %u:%u %04o", path,
				 S_ISCHR(st.st_mode)   ? 'c'
				 : S_ISBLK(st.st_mode) ? 'b'
						       : '-',
				 major(st.st_rdev), minor(st.st_rdev), st.st_mode & 07777);
		}
		keep(line);
	}
	if (at)
		closedir(at);
}

static void pid_1(void)
{
	static const char *const names[] = {"mem",  "exe",   "maps",	"environ", "auxv", "fd",
					    "cwd/", "root/", "ns/user", "syscall", NULL};
	char path[64], text[256];

	for (int i = 0; names[i]; i++) {
		int fd;

		snprintf(path, sizeof(path), "/proc/1/%s", names[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		printf("open /proc/1/%s %s\n", names[i], audit_errno(fd < 0 ? errno : 0));
		if (fd >= 0)
			close(fd);
	}
	printf("readlink /proc/1/exe %s\n",
	       audit_errno(readlink("/proc/1/exe", text, sizeof(text)) < 0 ? errno : 0));
	printf("pid 1 is %s", audit_text("/proc/1/comm", text, sizeof(text)));
	printf("pid 1 has argv %s\n", audit_text("/proc/1/cmdline", text, sizeof(text)));
}

static void others(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char text[8192], name[256] = "";
	char *rest = text, *line;
	int processes = 0;

	while (proc && (entry = readdir(proc))) {
		char path[300], comm[32];

		if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name))
			continue;
		// File workers and preforked children of pid 1 come and go.
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		audit_text(path, comm, sizeof(comm));
		processes += strcmp(comm, "cove-files\n") != 0 &&
			     strcmp(comm, "cove-prefork\n") != 0;
	}
	if (proc)
		closedir(proc);
	printf("processes %d\n", processes);
	audit_text("/proc/net/dev", text, sizeof(text));
	while ((line = strsep(&rest, "\n")))
		if (strchr(line, ':'))
			printf("interface %.*s\n", (int)strcspn(line + strspn(line, " "), ":"),
			       line + strspn(line, " "));
	audit_text("/proc/net/route", text, sizeof(text));
	printf("routes %s\n", strchr(text, '\n') && strchr(text, '\n')[1] ? "some" : "none");
	gethostname(name, sizeof(name) - 1);
	printf("hostname %s\n", name[0] && name[strspn(name, "abcdefghijklmnopqrstuvwxyz"
							     "0123456789-")] == 0
					? "of the box's grammar"
					: name);
}

void audit_places(void)
{
	namespaces();
	namespace_limits();
	cgroups();
	mounts();
	masks();
	find_writable("/proc", 0);
	find_writable("/sys", 0);
	print_kept();
	find_devices("/dev", 0);
	print_kept();
	pid_1();
	others();
}

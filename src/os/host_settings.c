// Settings of the host that weaken the isolation of sandboxes, as files of /proc and /sys and the
// version of the kernel tell. `cove doctor` and GET /v1/doctor show the same ones.
//
// syscalls: pread64 uname
#include "os/host_settings.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define KERNEL_OLD_DAYS 365

static bool host_settings_swaps(const char *text)
{
	return strstr(text, "\n/") != NULL;
}

// A sandbox of the default size may have 256 processes with 4096 files each; cove allows a quarter.
static bool host_settings_few_files(const char *text)
{
	return strtoull(text, NULL, 10) < 4ull * 256 * 4096;
}

// The build date of the kernel, from its version: "… Debian 6.1.90-1 (2024-05-03)", "… Fri May 3
// 10:00:00 UTC 2024". 0: unknown.
static time_t host_settings_built_at(const char *version)
{
	struct tm tm = {0};
	const char *year = strrchr(version, ' ');

	for (const char *at = version; *at; at++) {
		tm = (struct tm){0};
		if (strptime(at, "%Y-%m-%d", &tm) && tm.tm_year > 100)
			return timegm(&tm);
		tm = (struct tm){0};
		if (year && strptime(at, "%b %d %H:%M:%S", &tm) && strptime(year, " %Y", &tm))
			return timegm(&tm);
	}
	return 0;
}

static bool host_settings_old_kernel(void)
{
	struct utsname name;
	time_t built = uname(&name) == 0 ? host_settings_built_at(name.version) : 0;

	return built && time(NULL) - built > (time_t)KERNEL_OLD_DAYS * 86400;
}

static const struct {
	const char *path;
	bool (*is)(const char *text); // NULL: its first byte is `c`
	char c;
	const char *what, *fix;
} rows[] = {
	{"/proc/swaps", host_settings_swaps, 0,
	 "swap is on: secrets of a sandbox may reach the disk", "swapoff -a"},
	{"/sys/devices/system/cpu/smt/active", NULL, '1',
	 "SMT is on: neighbours on one core can spy on each other",
	 "echo off > /sys/devices/system/cpu/smt/control"},
	{"/sys/kernel/mm/ksm/run", NULL, '1',
	 "KSM is on: merged pages tell neighbours of each other's memory",
	 "echo 2 > /sys/kernel/mm/ksm/run"},
	{"/proc/sys/kernel/core_pattern", NULL, '|',
	 "core_pattern starts a helper on the host for every crash",
	 "sysctl kernel.core_pattern=core"},
	{"/proc/sys/kernel/dmesg_restrict", NULL, '0', "every user may read the kernel's log",
	 "sysctl kernel.dmesg_restrict=1"},
	{"/proc/sys/fs/file-max", host_settings_few_files, 0,
	 "fs.file-max is small: open files of a few sandboxes use it up",
	 "sysctl fs.file-max=9223372036854775807"},
};
#define ROWS (sizeof(rows) / sizeof(*rows))
_Static_assert(ROWS <= HOST_SETTINGS_FILES, "each row has a file");

void host_settings_open(const char *data, struct host_settings *out)
{
	struct stat here, root;

	for (size_t i = 0; i < ROWS; i++)
		out->files[i] = open(rows[i].path, O_RDONLY | O_CLOEXEC);
	out->shares_root = stat(data, &here) == 0 && stat("/", &root) == 0 &&
			   here.st_dev == root.st_dev;
}

void host_settings_close(struct host_settings *settings)
{
	for (size_t i = 0; i < ROWS; i++)
		if (settings->files[i] >= 0)
			close(settings->files[i]);
}

void host_settings_look(const struct host_settings *settings,
			void (*each)(void *arg, const char *what, const char *fix), void *arg)
{
	char text[256];

	for (size_t i = 0; i < ROWS; i++) {
		ssize_t got = settings->files[i] < 0
				      ? 0
				      : pread(settings->files[i], text, sizeof(text) - 1, 0);

		if (got <= 0)
			continue;
		text[got] = 0;
		if (rows[i].is ? rows[i].is(text) : text[0] == rows[i].c)
			each(arg, rows[i].what, rows[i].fix);
	}
	if (host_settings_old_kernel())
		each(arg, "the kernel was built more than a year ago", "install the current one");
	if (settings->shares_root)
		each(arg, "the data directory shares the root file system: sandboxes can fill it",
		     "mount a file system of its own there");
}

// The skeleton of the host template, generated in a directory of its own. It contains no secret of
// the host: accounts have no hashes, the host name is not the host's, the resolver exists only in
// boxes. It is made anew at each boot (host_stamp), so nothing of it is synced.
//
// syscalls: openat close newfstatat fstat mkdirat fchmodat fchownat symlinkat readlinkat
// syscalls: unlinkat read write fchmod renameat getdents64 faccessat linkat
#include "warden/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "warden/host_etc.h"

#define ACCOUNTS_MAX (1u << 20)
#define AGENT 1000
#define NOBODY 65534
#define TRIGGERS_MAX 4096

static const struct {
	const char *path;
	mode_t mode;
	uid_t owner;
} directories[] = {
	{"boot", 0755, 0},
	{"dev", 0755, 0},
	{"etc", 0755, 0},
	{"home", 0755, 0},
	{"home/agent", 0755, AGENT},
	{"media", 0755, 0},
	{"mnt", 0755, 0},
	{"opt", 0755, 0},
	{"proc", 0555, 0},
	{"root", 0700, 0},
	{"run", 0755, 0},
	{"srv", 0755, 0},
	{"sys", 0555, 0},
	{"tmp", 01777, 0},
	{"usr", 0755, 0},
	{"var", 0755, 0},
	{"workspace", 0755, 0},
	{"var/backups", 0755, 0},
	{"var/cache", 0755, 0},
	{"var/cache/apt", 0755, 0},
	{"var/cache/apt/archives", 0755, 0},
	{"var/cache/apt/archives/partial", 0700, 0},
	{"var/cache/debconf", 0755, 0},
	{"var/lib", 0755, 0},
	{"var/lib/apt", 0755, 0},
	{"var/lib/apt/lists", 0755, 0},
	{"var/lib/apt/lists/partial", 0700, 0},
	{"var/lib/dpkg", 0755, 0},
	{"var/lib/misc", 0755, 0},
	{"var/local", 02775, 0},
	{"var/log", 0755, 0},
	{"var/log/apt", 0755, 0},
	{"var/mail", 02775, 0},
	{"var/opt", 0755, 0},
	{"var/spool", 0755, 0},
	{"var/tmp", 01777, 0},
};

// Where /usr is merged, these are links into it.
static const char *const merged[] = {"bin", "sbin", "lib", "lib64", "lib32", "libx32"};

fallible host_stamp(int host, const char *boot, char out[HOST_STAMP_SIZE])
{
	struct stat st;

	if (fstatat(host, "var/lib/dpkg/status", &st, 0) && fstatat(host, "usr", &st, 0))
		return err_sys(errno, "look at the host's packages");
	snprintf(out, HOST_STAMP_SIZE, "%llx.%llx.%llx-%.8s", (unsigned long long)st.st_ino,
		 (unsigned long long)st.st_mtim.tv_sec, (unsigned long long)st.st_mtim.tv_nsec,
		 boot);
	return OK;
}

static fallible make_directories(int root)
{
	for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++) {
		const char *path = directories[i].path;
		uid_t owner = directories[i].owner;

		if (mkdirat(root, path, 0700) || fchownat(root, path, owner, owner, 0) ||
		    fchmodat(root, path, directories[i].mode, 0))
			return err_sys(errno, "make /%s", path);
	}
	return OK;
}

static fallible make_links(int host, int root)
{
	for (size_t i = 0; i < sizeof(merged) / sizeof(*merged); i++) {
		char target[64];
		ssize_t len = readlinkat(host, merged[i], target, sizeof(target) - 1);

		if (len < 0 && errno == ENOENT)
			continue;
		if (len < 0)
			return err_hint(err_new(NOT_OFFERED, "no_usrmerge",
						"/%s of this host is no link into /usr", merged[i]),
					"install the package 'usrmerge', or import a template");
		target[len] = 0;
		if (symlinkat(target, root, merged[i]))
			return err_sys(errno, "link /%s", merged[i]);
	}
	if (symlinkat("/run", root, "var/run") || symlinkat("/run/lock", root, "var/lock"))
		return err_sys(errno, "link /var/run");
	return OK;
}

// The n-th field between colons.
static struct str field(struct str line, int n)
{
	struct str out = {0};

	while (n-- >= 0)
		if (!str_cut(&line, ':', &out))
			return (struct str){0};
	return out;
}

// dpkg fails when a name in its overrides is unknown: each line is "user group mode path".
static bool is_overridden(struct str overrides, int column, struct str name)
{
	struct str line, word;

	while (str_cut(&overrides, '\n', &line)) {
		for (int i = 0; i <= column; i++)
			if (!str_cut(&line, ' ', &word))
				word = (struct str){0};
		if (name.len && str_eq(word, name))
			return true;
	}
	return false;
}

// System accounts, and those that overrides name; no accounts of people.
static bool is_system(struct str line, struct str overrides, int column)
{
	struct str name = field(line, 0);
	uint64_t id;

	if (!str_to_u64(field(line, 2), 0, NOBODY, &id) || id == AGENT || !name.len ||
	    str_is(name, "agent") || str_is(name, "cove"))
		return false;
	return id < AGENT || id == NOBODY || is_overridden(overrides, column, name);
}

struct accounts {
	struct buf passwd, shadow, group, gshadow;
};

static void add_user(struct accounts *out, struct str line)
{
	buf_fmt(&out->passwd,
		STR_FMT ":x:" STR_FMT ":" STR_FMT ":" STR_FMT ":" STR_FMT ":" STR_FMT "\n",
		STR_ARG(field(line, 0)), STR_ARG(field(line, 2)), STR_ARG(field(line, 3)),
		STR_ARG(field(line, 4)), STR_ARG(field(line, 5)), STR_ARG(field(line, 6)));
	buf_fmt(&out->shadow, STR_FMT ":*:19000:0:99999:7:::\n", STR_ARG(field(line, 0)));
}

static void add_group(struct accounts *out, struct str line)
{
	buf_fmt(&out->group, STR_FMT ":x:" STR_FMT ":\n", STR_ARG(field(line, 0)),
		STR_ARG(field(line, 2)));
	buf_fmt(&out->gshadow, STR_FMT ":*::\n", STR_ARG(field(line, 0)));
}

static fallible fill_accounts(int host, struct accounts *out)
{
	auto_buf passwd = BUF_INIT(ACCOUNTS_MAX);
	auto_buf group = BUF_INIT(ACCOUNTS_MAX);
	auto_buf overrides = BUF_INIT(ACCOUNTS_MAX);
	struct str text, line;

	TRY(path_read(host, "etc/passwd", &passwd));
	TRY(path_read(host, "etc/group", &group));
	err_free(path_read(host, "var/lib/dpkg/statoverride", &overrides)); // absent: none
	text = buf_view(&passwd);
	while (str_cut(&text, '\n', &line))
		if (is_system(line, buf_view(&overrides), 0))
			add_user(out, line);
	text = buf_view(&group);
	while (str_cut(&text, '\n', &line))
		if (is_system(line, buf_view(&overrides), 1))
			add_group(out, line);
	add_user(out, STR("agent:x:1000:1000:agent:/home/agent:/bin/bash"));
	add_group(out, STR("agent:x:1000:"));
	if (!buf_ok(&out->passwd) || !buf_ok(&out->shadow) || !buf_ok(&out->group) ||
	    !buf_ok(&out->gshadow))
		return err_sys(EFBIG, "list the accounts of the host");
	return OK;
}

// The group that may read /etc/shadow, by the box's group file; 0: there is none.
static gid_t shadow_group(struct str groups)
{
	struct str line;
	uint64_t id;

	while (str_cut(&groups, '\n', &line))
		if (str_is(field(line, 0), "shadow") && str_to_u64(field(line, 2), 0, NOBODY, &id))
			return (gid_t)id;
	return 0;
}

static fallible write_accounts(int etc, const struct accounts *accounts)
{
	gid_t shadow = shadow_group(buf_view(&accounts->group));

	TRY(path_write(etc, "passwd", 0644, accounts->passwd.at));
	TRY(path_write(etc, "group", 0644, accounts->group.at));
	TRY(path_write(etc, "shadow", 0640, accounts->shadow.at));
	TRY(path_write(etc, "gshadow", 0640, accounts->gshadow.at));
	if (fchownat(etc, "shadow", 0, shadow, 0) || fchownat(etc, "gshadow", 0, shadow, 0))
		return err_sys(errno, "give shadow to its group");
	return OK;
}

static fallible make_accounts(int host, int etc)
{
	struct accounts accounts = {BUF_INIT(ACCOUNTS_MAX), BUF_INIT(ACCOUNTS_MAX),
				    BUF_INIT(ACCOUNTS_MAX), BUF_INIT(ACCOUNTS_MAX)};
	struct err *err = fill_accounts(host, &accounts);

	if (!err)
		err = write_accounts(etc, &accounts);
	buf_done(&accounts.passwd);
	buf_done(&accounts.shadow);
	buf_done(&accounts.group);
	buf_done(&accounts.gshadow);
	return err;
}

static fallible make_names(int etc)
{
	TRY(path_write(etc, "hosts", 0644, "127.0.0.1 localhost\n::1 localhost\n"));
	TRY(path_write(etc, "hostname", 0644, "localhost\n"));
	return path_write(etc, "resolv.conf", 0644, "nameserver 10.0.2.3\n");
}

// dpkg requires that the file exists (dpkg --audit). Its content is used by dpkg --verify only.
static fallible dpkg_empty_file(int info, const char *name)
{
	auto_fd fd = openat(info, name, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(errno, "empty '%s'", name) : OK;
}

// dpkg-shlibdeps falls back to the shlibs file of the same package.
static fallible dpkg_drop_symbols(int info, struct str name)
{
	auto_free char *shlibs = mem_fmt(STR_FMT ".shlibs", (int)(name.len - strlen(".symbols")),
					 name.at);

	if (faccessat(info, shlibs, F_OK, 0) || !unlinkat(info, name.at, 0))
		return OK;
	return err_sys(errno, "remove '%s'", name.at);
}

// Most triggers files say "activate-noawait ldconfig": equal ones become one file.
static fallible dpkg_link_triggers(int info, const char *name, struct map *seen)
{
	auto_buf text = BUF_INIT(TRIGGERS_MAX);
	auto_err err = path_read(info, name, &text);
	const char *first;

	if (err)
		return OK; // longer than a block: left as it is
	first = map_get(seen, buf_view(&text));
	if (!first) {
		map_put(seen, buf_view(&text), mem_str(name));
		return OK;
	}
	if (unlinkat(info, name, 0) || linkat(info, first, info, name, 0))
		return err_sys(errno, "link '%s'", name);
	return OK;
}

static fallible dpkg_prune_file(int info, const char *name, struct map *triggers)
{
	struct str text = str_of(name);

	if (str_ends(text, ".md5sums"))
		return dpkg_empty_file(info, name);
	if (str_ends(text, ".symbols"))
		return dpkg_drop_symbols(info, text);
	return str_ends(text, ".triggers") ? dpkg_link_triggers(info, name, triggers) : OK;
}

static fallible dpkg_prune_info(DIR *list, int info, struct map *triggers)
{
	struct dirent *entry;

	while (errno = 0, (entry = readdir(list)))
		TRY(dpkg_prune_file(info, entry->d_name, triggers));
	return errno ? err_sys(errno, "list dpkg's files") : OK;
}

static void dpkg_free_names(struct map *names)
{
	struct str key;
	size_t at = 0;
	void *name;

	while (map_next(names, &at, &key, &name))
		free(name);
	map_free(names);
}

// Removes from the copy the files that packages need neither for an upgrade nor for removal: more
// than half of it.
static fallible dpkg_prune(int dpkg)
{
	static const char *const unneeded[] = {"available", "status-old", "diversions-old",
					       "statoverride-old"};
	auto_fd info = openat(dpkg, "info", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct map *triggers;
	struct err *err;
	DIR *list;

	for (size_t i = 0; i < sizeof(unneeded) / sizeof(*unneeded); i++)
		if (unlinkat(dpkg, unneeded[i], 0) && errno != ENOENT)
			return err_sys(errno, "remove '%s'", unneeded[i]);
	if (info < 0)
		return errno == ENOENT ? OK : err_sys(errno, "open dpkg's info");
	list = fdopendir(info);
	if (!list)
		return err_sys(errno, "list dpkg's files");
	triggers = map_new();
	err = dpkg_prune_info(list, take_fd(&info), triggers);
	dpkg_free_names(triggers);
	closedir(list);
	return err;
}

// apt and dpkg in the box then know the installed packages.
static fallible copy_dpkg(int host, int root, struct path_copied *sum)
{
	auto_fd from = openat(host, "var/lib/dpkg", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd to = openat(root, "var/lib/dpkg", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (from < 0)
		return errno == ENOENT ? OK : err_sys(errno, "open dpkg's files");
	if (to < 0)
		return err_sys(errno, "open the copy of dpkg's files");
	TRY(path_copy(from, to, sum));
	return dpkg_prune(to);
}

fallible host_build(int host, int root, struct path_copied *sum)
{
	auto_fd etc = -1;

	TRY(make_directories(root));
	TRY(make_links(host, root));
	TRY(path_dir(root, "etc", 0755, &etc));
	TRY(host_etc(host, root, etc, sum), "copy /etc");
	TRY(make_accounts(host, etc), "make the accounts");
	TRY(make_names(etc), "make the names");
	return copy_dpkg(host, root, sum);
}

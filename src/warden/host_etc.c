// Which files of the host's /etc a box sees. A list of allowed names broke chromium, fonts and
// java; so the rule is: what belongs to a package and everybody on the host may read, or what a
// package is known to generate. Then two nets below it: a list of names that are never taken, and a
// look inside for anything that says PRIVATE, the mark of keys.
//
// All that is read here is the host's own and trusted; what must not happen is telling too much.
//
// syscalls: openat close getdents64 newfstatat fstat read mkdirat fchmod fchown fchownat
// syscalls: fchmodat symlinkat readlinkat linkat utimensat ioctl lseek copy_file_range pread64
// syscalls: pwrite64 ftruncate
#include "warden/host_etc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/weak.h"

#define LIST_MAX (64u << 20) // of one package's file list
#define FILE_MAX (4u << 20)  // larger ones are no configuration
#define DEPTH_MAX 32

// Never, whoever owns them. '*' matches slashes too.
static const char *const denied[] = {
	"shadow*",
	"gshadow*",
	"passwd*",
	"group*",
	"subuid*",
	"subgid*",
	"sudoers*",
	"ssh",
	"ssh/*",
	"ssl/private",
	"ssl/private/*",
	"apt/auth*",
	"machine-id",
	"hostname",
	"hosts",
	"resolv.conf",
	"resolvconf*",
	"NetworkManager*",
	"netplan*",
	"wireguard*",
	"openvpn*",
	"wpa_supplicant*",
	"ppp",
	"ppp/*",
	"ipsec*",
	"*.key",
	"*.keytab",
	"cove",
	"cove/*",
	"fstab",
	"crypttab",
	"exports",
	"environment",
	"security/opasswd",
	".*",
	"*.dpkg-*",
	"*.ucf-*",
};

// No package lists these, yet packages made them and programs need them.
static const char *const generated[] = {
	"alternatives/*",
	"ssl/certs/*",
	"java-*",
	"fonts/*",
	"xml/*",
	"sgml/*",
	"pam.d/common-*",
	"ld.so.cache",
	"ld.so.conf.d/*",
	"nsswitch.conf",
	"localtime",
	"timezone",
	"shells",
	"default/locale",
	"locale.conf",
	"locale.gen",
	"ca-certificates.conf",
	"networks",
	"mtab",
	"os-release",
	"profile",
	"inputrc",
	"mailcap",
	"host.conf",
	"dpkg/origins/*",
	"python3*",
	"fpc*.cfg",
	"gtk-*",
	"vim/*",
};

// Allowed when no name and password hide in an address: the host's package sources.
static const char *const sources[] = {"apt/sources.list", "apt/sources.list.d/*"};

#define MATCHES(table, path) matches(table, sizeof(table) / sizeof(*(table)), path)

static bool matches(const char *const *table, size_t count, const char *path)
{
	for (size_t i = 0; i < count; i++)
		if (fnmatch(table[i], path, 0) == 0)
			return true;
	return false;
}

struct etc {
	struct map *owned; // paths that packages list, without the first slash
	struct path_copied *sum;
	struct buf path; // of the directory at work beneath /etc, ends with '/'
	struct buf text; // of the file at hand
};

// A directory on the way. Its copy is made when something in it is wanted.
struct level {
	struct level *above;
	const char *name;
	int from, to; // to is -1 until then
};

static void state_owned(struct map *owned, struct str text)
{
	struct str line;

	while (str_cut(&text, '\n', &line)) {
		// ucf's register has the package's name in front.
		const char *path = memchr(line.at, '/', line.len);

		if (!path)
			continue;
		line = str_skip(line, (size_t)(path - line.at) + 1);
		if (str_starts(line, "etc/") || str_starts(line, "var/"))
			map_put(owned, line, owned); // a set: any value does
	}
}

static fallible host_etc_read_lists(int host, struct map *owned)
{
	auto_fd fd = openat(host, "var/lib/dpkg/info", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	auto_buf text = BUF_INIT(LIST_MAX);
	struct dirent *entry;
	struct err *err = OK;

	if (!dir)
		return OK; // a host without dpkg
	take_fd(&fd);
	while (!err && (entry = readdir(dir))) {
		struct str name = str_of(entry->d_name);

		if (!str_ends(name, ".list") && !str_ends(name, ".conffiles"))
			continue;
		buf_clear(&text);
		err = path_read(dirfd(dir), entry->d_name, &text);
		if (!err)
			state_owned(owned, buf_view(&text));
	}
	closedir(dir);
	buf_clear(&text);
	if (!err) {
		err_free(path_read(host, "var/lib/ucf/registry", &text)); // absent: no ucf
		state_owned(owned, buf_view(&text));
	}
	return err;
}

static bool is_owned(const struct etc *etc, const char *top, const char *path)
{
	char full[1024];
	int len = snprintf(full, sizeof(full), "%s/%s", top, path);

	return len < (int)sizeof(full) && map_get(etc->owned, (struct str){full, (size_t)len});
}

// The directory's copy, with the owner and mode of the original.
static fallible level_make(struct level *level)
{
	struct stat st;

	if (level->to >= 0 || !level->above) // the top has its copy from the start
		return OK;
	TRY(level_make(level->above));
	if (fstat(level->from, &st))
		return err_sys(errno, "look at /etc/.../%s", level->name);
	TRY(path_dir(level->above->to, level->name, 0755, &level->to));
	if (fchown(level->to, st.st_uid, st.st_gid) || fchmod(level->to, st.st_mode & 07777))
		return err_sys(errno, "dress /etc/.../%s", level->name);
	return OK;
}

// Whether a regular file may be shown: by who may read it, and by what it says.
static fallible may_show(struct etc *etc, const struct level *level, const char *name,
			 const char *path, const struct stat *st, bool *out)
{
	*out = weak(ETC);
	if (weak(ETC) || !(st->st_mode & S_IROTH) || st->st_size > FILE_MAX)
		return OK;
	buf_clear(&etc->text);
	TRY(path_read(level->from, name, &etc->text));
	if (etc->text.len && memmem(etc->text.at, etc->text.len, "PRIVATE", 7))
		return OK;
	if (MATCHES(sources, path))
		*out = !memchr(etc->text.at, '@', etc->text.len);
	else
		*out = is_owned(etc, "etc", path) || MATCHES(generated, path);
	return OK;
}

static fallible host_etc_walk(struct etc *etc, struct level *level, int depth);

static fallible consider(struct etc *etc, struct level *level, const char *name, int depth)
{
	size_t len = etc->path.len;
	bool wanted = false;
	struct stat st;
	struct err *err = OK;

	if (fstatat(level->from, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? OK : err_sys(errno, "look at '%s' in /etc", name);
	buf_text(&etc->path, name);
	if (!buf_ok(&etc->path))
		return err_sys(ENAMETOOLONG, "name '%s' in /etc", name);
	if (!weak(ETC) && MATCHES(denied, etc->path.at)) {
		wanted = false;
	} else if (S_ISREG(st.st_mode)) {
		err = may_show(etc, level, name, etc->path.at, &st, &wanted);
	} else if (S_ISLNK(st.st_mode)) {
		wanted = is_owned(etc, "etc", etc->path.at) || MATCHES(generated, etc->path.at);
	} else if (S_ISDIR(st.st_mode) && (st.st_mode & 05) == 05 && depth < DEPTH_MAX) {
		struct level below = {level, name, -1, -1};

		below.from = openat(level->from, name,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below.from < 0)
			return err_sys(errno, "open /etc/.../%s", name);
		if (is_owned(etc, "etc", etc->path.at))
			err = level_make(&below);
		buf_char(&etc->path, '/');
		if (!err)
			err = host_etc_walk(etc, &below, depth + 1);
		close(below.from);
		if (below.to >= 0)
			close(below.to);
	}
	if (!err && wanted)
		err = level_make(level);
	if (!err && wanted)
		err = path_copy_one(level->from, level->to, name, etc->sum);
	etc->path.len = len;
	etc->path.at[len] = 0;
	return err;
}

static fallible host_etc_walk(struct etc *etc, struct level *level, int depth)
{
	auto_fd again = openat(level->from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again < 0 ? NULL : fdopendir(again);
	struct dirent *entry;
	struct err *err = OK;

	if (!dir)
		return err_sys(errno, "list a directory in /etc");
	take_fd(&again);
	while (!err && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			err = consider(etc, level, entry->d_name, depth);
	closedir(dir);
	return err;
}

// `path` beneath `root`, a directory with the owner and mode that it has on the host.
static fallible make_var(int host, int root, struct str path)
{
	auto_free char *copy = mem_dup(path.at, path.len);
	struct stat st;

	if (path.len > 512 || strstr(copy, "..") || fstatat(host, copy, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISDIR(st.st_mode) || (st.st_mode & 05) != 05)
		return OK;
	for (char *slash = copy; (slash = strchr(slash + 1, '/'));) {
		*slash = 0;
		if (mkdirat(root, copy, 0755) && errno != EEXIST)
			return err_sys(errno, "make /%s", copy);
		*slash = '/';
	}
	if (mkdirat(root, copy, 0755) && errno != EEXIST)
		return err_sys(errno, "make /%s", copy);
	if (fchownat(root, copy, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) ||
	    fchmodat(root, copy, st.st_mode & 07777, 0))
		return err_sys(errno, "dress /%s", copy);
	return OK;
}

static fallible make_vars(const struct map *owned, int host, int root)
{
	struct str path;
	void *value;
	size_t at = 0;

	while (map_next(owned, &at, &path, &value))
		if (str_starts(path, "var/") && !str_starts(path, "var/lib/dpkg/"))
			TRY(make_var(host, root, path));
	return OK;
}

static fallible copy_etc(struct etc *etc, int host, int to)
{
	auto_fd from = openat(host, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct level top = {NULL, "etc", from, to};

	if (from < 0)
		return err_sys(errno, "open /etc");
	return host_etc_walk(etc, &top, 0);
}

fallible host_etc(int host, int root, int to, struct path_copied *sum)
{
	struct etc etc = {.owned = map_new(),
			  .sum = sum,
			  .path = BUF_INIT(4096),
			  .text = BUF_INIT(FILE_MAX + 1)};
	struct err *err = host_etc_read_lists(host, etc.owned);

	buf_text(&etc.path, ""); // so that its text is never NULL
	if (!err && !buf_ok(&etc.path))
		err = err_sys(ENOMEM, "name files of /etc");
	if (!err)
		err = copy_etc(&etc, host, to);
	if (!err)
		err = make_vars(etc.owned, host, root);
	map_free(etc.owned);
	buf_done(&etc.path);
	buf_done(&etc.text);
	return err;
}
